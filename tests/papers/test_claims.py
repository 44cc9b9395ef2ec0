"""Verdicts: hand-worked intervals, pairing by seed, what is missing, what was not reached."""

import math

import pytest

from eunoe.papers.claims import AtLeast, Claim, NotReached, judge
from eunoe.papers.comparisons import (
    above,
    above_all,
    best_gain,
    gains,
    highest,
    least_gain,
    lowest,
    mean_gain,
    mean_loss,
)
from eunoe.papers.exhibits.learning_rates import more_rates_than, tolerance_table, within
from eunoe.papers.keys import Key, key


def cell(label: str) -> Key:
    """A key from "data lr=rate method", "data norm method", "data method" or "method"."""
    *before, method = label.split()
    parts: dict[str, str | float] = {"data": before[0]} if before else {}
    for word in before[1:]:
        name, _, value = word.partition("=")
        parts |= {name: float(value)} if value else {"norm": word}
    return key(**parts, method=method)


def cells(values: dict[str, float]) -> dict[Key, float]:
    return {cell(label): value for label, value in values.items()}


def test_pairing_by_seed_sees_what_means_hide() -> None:
    claim = Claim("b is above a", mean_gain("b", "a"))
    pairs = [(0.1, 0.12), (0.5, 0.521), (0.9, 0.919)]
    seeds = [cells({"x a": a, "x b": b}) for a, b in pairs]
    verdict = judge(claim, seeds)
    assert verdict.word == "seen"
    assert verdict.mean == pytest.approx(0.02)
    assert "seen: +2.00 points" in verdict.text()
    assert judge(claim, [cells({"x a": b, "x b": a}) for a, b in pairs]).word == "contradicted"


def test_one_learning_rate_says_nothing_of_how_many_are_good() -> None:
    one = {key(data="cifar10", lr=0.1, method=name): value for name, value in (("a", 0.5), ("b", 0.6))}
    assert more_rates_than("a", ("b",))(one) is None
    two = {**one, **{key(data="cifar10", lr=0.3, method=name): v for name, v in (("a", 0.1), ("b", 0.6))}}
    assert more_rates_than("a", ("b",))(two) == 1.0


def test_learning_rates_at_which_runs_diverge_are_left_out() -> None:
    nan = math.nan
    values = cells(
        {
            "x lr=0.1 a": nan,
            "x lr=0.2 a": 0.4,
            "x lr=0.1 b": nan,
            "x lr=0.2 b": 0.5,
            "x lr=0.3 b": 0.3,
            "x lr=0.3 a": nan,
        }
    )
    assert best_gain("b", "a")(values) == pytest.approx(0.1)
    assert mean_gain("b", "a")(values) == pytest.approx(0.1)
    assert highest(cell("x lr=0.2 b"), [cell("x lr=0.1 a"), cell("x lr=0.2 a")])(values) == pytest.approx(0.1)
    first = cell("x lr=0.1 b"), cell("x lr=0.1 a")
    for statistic in (
        best_gain("b", "a"),
        mean_gain("b", "a"),
        highest(first[0], [first[1]]),
        lowest(first[0], [first[1]]),
        above(*first),
    ):
        diverged = statistic(cells({"x lr=0.1 a": 0.5, "x lr=0.1 b": nan}))
        assert diverged is not None
        assert math.isnan(diverged)
        assert statistic(cells({"x lr=0.1 a": nan, "x lr=0.1 b": 0.5})) is None, "by how much is not known"
        assert statistic(cells({"x lr=0.1 b": 0.5})) is None
    for statistic in (mean_gain("b", "a"), least_gain("b", "a")):
        only_b = statistic({**values, **cells({"x lr=0.4 a": 0.4, "x lr=0.4 b": nan})})
        assert only_b is not None
        assert math.isnan(only_b)
    assert within(values, 20) == {cell("x a"): [0.2], cell("x b"): [0.2, 0.3]}
    assert tolerance_table({**values, cell("x lr=0.7 b"): nan})["x b best lr"] == "0.2"


def test_a_seed_that_diverged_counts_against_the_claim() -> None:
    claim = Claim("b is above a", mean_gain("b", "a"))
    two = [cells({"x a": 0.1, "x b": 0.3}), cells({"x a": 0.1, "x b": 0.301})]
    assert judge(claim, two).word == "seen"
    verdict = judge(claim, [*two, cells({"x a": 0.1, "x b": math.nan})])
    assert verdict.word == "undecided"
    assert verdict.text().endswith("2 seeds, 1 seed diverged")


def test_a_wide_interval_decides_nothing() -> None:
    verdict = judge(
        Claim("", mean_gain("b", "a")), [cells({"a": 0.0, "b": gain}) for gain in (0.01, 0.2, 0.0)]
    )
    assert verdict.mean > 0
    assert verdict.word == "undecided"
    same = judge(Claim("", mean_gain("b", "a")), [cells({"a": 0.25, "b": 0.5})] * 3)
    assert same.text() == "seen: +25.00 points in every seed, 3 seeds"
    level = judge(Claim("", mean_gain("b", "a")), [cells({"a": 0.1, "b": 0.1})] * 3)
    assert level.word == "no difference"


def test_what_was_not_run_is_not_tested() -> None:
    claim = Claim("", mean_gain("b", "a"))
    assert judge(claim, [cells({"x a": 1.0}), cells({"x a": 2.0})]).word == "not tested"
    absent = "not tested: what it compares was not run, or not for long enough"
    assert judge(claim, [cells({"x a": 1.0})]).text() == absent


def test_one_seed_says_what_it_found() -> None:
    claim = Claim("", mean_gain("b", "a"))
    held = judge(claim, [cells({"x a": 0.1, "x b": 0.2})])
    assert held.text() == "holds in one seed: +10.00 points"
    assert (
        judge(claim, [cells({"x a": 0.2, "x b": 0.1})]).text() == "does not hold in one seed: -10.00 points"
    )
    lost = cells({"x a": 0.1, "x b": math.nan})
    assert judge(claim, [lost]).text() == "does not hold in one seed: 1 seed diverged"
    assert judge(claim, [lost, lost]).text() == "contradicted: 2 seeds diverged"
    assert (
        judge(claim, [lost, cells({"a": 0.1, "b": 0.2})]).text()
        == "undecided: +10.00 points, 1 seed, 1 seed diverged"
    )


def test_rounds_that_were_not_reached_stay_censored() -> None:
    claim = Claim("", lowest(cell("mine"), [cell("p")]), "rounds")
    seeds = [
        cells({"mine": 2.0, "p": 5.0}),
        cells({"mine": 2.0, "p": NotReached(6)}),
        cells({"mine": 3.0, "p": AtLeast(8)}),
    ]
    verdict = judge(claim, seeds)
    # 3, at least 4 and at least 5 rounds: deviation 1, as in 1, 2, 3.
    assert verdict.by_seed == (3.0, 4.0, 5.0)
    assert verdict.censored == 2
    assert verdict.text() == (
        "seen: at least +4.00 rounds [+1.52, +6.48], 3 seeds, the others did not get there in 2 seeds"
    )
    behind = judge(claim, [cells({"mine": NotReached(9), "p": 5.0})])
    assert behind.text() == "does not hold in one seed: at most -4.00 rounds, it did not get there in 1 seed"
    nobody = cells({"mine": NotReached(9), "p": NotReached(9)})
    assert judge(claim, [nobody] * 2).text() == "not tested: nobody got there"
    tied = judge(claim, [nobody, *seeds])
    assert tied.by_seed == (0.0, 3.0, 4.0, 5.0)
    assert tied.not_reached == "the others did not get there in 2 seeds, nobody got there in 1 seed"
    # Deviation 2.16, t(3) = 3.182: 3 - 3.182 * 2.16 / 2 < 0.
    assert tied.word == "undecided"


def test_an_untrained_network_gets_no_verdict() -> None:
    claim = Claim("", mean_gain("b", "a"))
    verdict = judge(claim, [cells({"a": 0.1, "b": 0.2})] * 3, "FedAvg reaches 11.0%")
    assert verdict.word == "untrained: no verdict"
    assert verdict.text() == "untrained: no verdict (FedAvg reaches 11.0%)"
    assert judge(claim, [cells({"a": 0.1})], "FedAvg reaches 11.0%").word == "not tested"


def test_spread_over_seeds_by_hand() -> None:
    claim = Claim("", mean_loss("b", "a"), of_spread=True)
    # Distances from the medians 0.4 and 0.5: 0.3, 0.2, 0.1, 0, 0.1, 0.2, 0.3 and 0, 0, 0.1, 0, 0, 0.1, 0.
    pairs = list(zip((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7), (0.5, 0.5, 0.4, 0.5, 0.5, 0.6, 0.5), strict=True))
    verdict = judge(claim, [cells({"x a": a, "x b": b}) for a, b in pairs])
    assert verdict.by_seed == pytest.approx([0.3, 0.2, 0.0, 0.0, 0.1, 0.1, 0.3])
    assert verdict.word == "seen"
    assert judge(claim, [cells({"x a": a, "x b": b}) for a, b in pairs[:4]]).word == "not tested"


def test_about_equal_is_judged_by_where_the_interval_lies() -> None:
    claim = Claim("", mean_gain("b", "a"), within=0.03)

    def word(*gains: float) -> str:
        return judge(claim, [cells({"a": 0.0, "b": gain}) for gain in gains]).word

    # Deviation 0.001: the interval is 0.0025 wide on either side.
    assert word(-0.001, 0.0, 0.001) == "seen"
    assert word(-0.025, -0.026, -0.027) == "seen"
    assert word(-0.029, -0.03, -0.031) == "undecided"
    assert word(-0.039, -0.04, -0.041) == "contradicted"
    assert word(0.05, -0.05, 0.0) == "undecided"
    assert (word(0.02), word(-0.04)) == ("holds in one seed", "does not hold in one seed")


def test_the_best_row_is_chosen_on_validation_data() -> None:
    values = cells({"x lr=0.1 a": 0.3, "x lr=0.2 a": 0.4, "x lr=0.1 b": 0.5, "x lr=0.2 b": 0.9})
    assert best_gain("b", "a")(values) == pytest.approx(0.5), "or by the values themselves"
    judged = {c.but(measure="validation"): v for c, v in zip(values, (0.7, 0.1, 0.6, 0.2), strict=True)}
    assert best_gain("b", "a")({**values, **judged}) == pytest.approx(0.5 - 0.3)


def test_columns_are_whole_words() -> None:
    values = cells(
        {"cifar10 lr=0.1 fedavg": 0.1, "cifar10 lr=0.1 fedavg+wsm": 0.3, "cifar10 lr=0.1 xfedavg": 9.0}
    )
    assert gains(values, "fedavg+wsm", "fedavg") == [pytest.approx(0.2)]


def test_best_gain_is_that_of_the_data_where_it_is_least() -> None:
    values = cells(
        {
            "a lr=0.1 base": 0.1,
            "a lr=0.2 base": 0.4,
            "a lr=0.1 new": 0.5,
            "b lr=0.1 base": 0.2,
            "b lr=0.1 new": 0.1,
        }
    )
    assert best_gain("new", "base")(values) == pytest.approx(-0.1)
    assert best_gain("new", "base", ("a",))(values) == pytest.approx(0.1)
    diverged = best_gain("new", "base")({**values, cell("b lr=0.1 new"): math.nan})
    assert diverged is not None
    assert math.isnan(diverged)


def test_above_all_looks_at_each_row() -> None:
    values = cells({"x mine": 0.9, "x p": 0.8, "x q": 0.5, "x batch mine": 0.4, "x batch p": 0.35})
    assert above_all("mine")(values) == pytest.approx(0.05)
    assert above_all("mine")({**values, cell("x q"): 0.95}) == pytest.approx(-0.05)
    diverged = above_all("mine")({**values, cell("x mine"): math.nan})
    assert diverged is not None
    assert math.isnan(diverged)
    assert above_all("mine")(cells({"x mine": 0.9})) is None


def test_lowest_takes_the_nearest_rival() -> None:
    def found(values: dict[str, float], *others: str) -> float | None:
        return lowest(cell("mine"), [cell(other) for other in others])(cells(values))

    assert found({"mine": 2.0, "p": 5.0, "q": 9.0}, "p", "q", "absent") == 3.0
    assert found({"mine": 2.0}, "absent") is None
    # A rival that stopped in round 4 may need 5 rounds or more.
    assert found({"mine": 2.0, "p": AtLeast(5), "q": 9.0}, "p", "q") == 3.0
    assert found({"mine": 7.0, "p": AtLeast(5), "q": 9.0}, "p", "q") is None


def test_labels_are_the_parts_of_a_key_in_order() -> None:
    line = key(data="cifar10", lr=0.1, norm="", method="fedavg+wsm batch")
    assert line.label == "cifar10 lr=0.1 fedavg+wsm batch"
    assert line.but(method="fedavg", measure="own").label == "cifar10 lr=0.1 fedavg own"
    assert line.but(lr="") == key(data="cifar10", method="fedavg+wsm batch")
    assert line.has(data="cifar10", norm="")
    assert not line.has(measure="own")

"""The statistics of claims, by hand: rows, rivals, learning rates, what is missing and what diverged."""

import math
from typing import Any

import pytest
from pydantic import ValidationError

from eunoe_papers.claims import Claim, Label, label, near_best
from eunoe_papers.results import tolerance_cells

NAN = math.nan


def cell(text: str) -> Label:
    """A label from "data lr=rate method", "data norm method", "data method" or "method"."""
    *before, method = text.split()
    parts: dict[str, str | float] = {"data": before[0]} if before else {}
    for word in before[1:]:
        name, _, value = word.partition("=")
        parts |= {name: float(value)} if value else {"norm": word}
    return label(**parts, method=method)


def cells(values: dict[str, float]) -> dict[Label, float]:
    return {cell(text): value for text, value in values.items()}


def statistic(values: dict[str, float] | dict[Label, float], **claim: Any) -> float | None:
    """The statistic of a claim that b is above a, unless it says otherwise."""
    made = {name if isinstance(name, Label) else cell(name): value for name, value in values.items()}
    comparison = Claim(**{"sentence": "", "better": "b", "than": "a", **claim}).compare(made)
    return None if comparison is None else comparison.value


def test_rows_are_compared_where_both_were_run() -> None:
    values = {"x lr=0.1 a": 0.1, "x lr=0.1 b": 0.3, "y lr=0.1 a": 0.1, "y lr=0.1 b": 0.2, "y lr=0.2 b": 9.0}
    assert statistic(values) == pytest.approx(0.1)
    assert statistic(values, rows="mean") == pytest.approx(0.15)
    assert statistic(values, lower=True) == pytest.approx(-0.2)
    assert statistic(values, where={"data": "x"}) == pytest.approx(0.2)
    assert statistic(values, margin=-0.05) == pytest.approx(0.05)
    assert statistic({"x a": 1.0}) is None
    assert statistic({"x lr=0.1 a": 0.1, "x lr=0.1 ba": 0.3}) is None, "methods are whole words"


def test_the_cells_that_are_compared_are_named() -> None:
    made = cells({"x a": 0.1, "x b": 0.3, "x c": 0.2, "y a": 0.5})
    comparison = Claim(sentence="", better="b", than="a").compare(made)
    assert comparison is not None
    assert comparison.cells == {cell("x a"), cell("x b")}


def test_a_value_alone_is_compared_with_a_bound() -> None:
    assert statistic({"a": 0.3}, better="a", than=[], margin=-0.1) == pytest.approx(0.2)
    assert statistic({"a": 4.0}, better="a", than=[], lower=True, margin=5.0) == pytest.approx(1.0)


def test_the_nearest_of_several_rivals_counts_of_those_that_were_run() -> None:
    three = ["p", "q", "absent"]
    assert statistic({"b": 2.0, "p": 5.0, "q": 9.0}, than=three, lower=True) == 3.0
    assert statistic({"b": 0.9, "p": 0.8, "q": 0.5}, than=three) == pytest.approx(0.1)
    assert statistic({"b": 2.0}, than=three) is None
    rows = {"x b": 0.9, "x p": 0.8, "x q": 0.95, "x batch b": 0.4, "x batch p": 0.35}
    assert statistic(rows, than=["p", "q"]) == pytest.approx(-0.05)


def test_the_best_inside_a_grid_is_known_where_all_of_it_was_run() -> None:
    grid = {
        label(weight=weight): rounds for weight, rounds in ((0.1, 4.0), (1.0, 3.0), (2.0, 2.0), (10.0, 5.0))
    }
    inside: Any = [[[{"weight": 1.0}, {"weight": 2.0}], {"weight": 0.1}, {"weight": 10.0}]]
    assert statistic(grid, pairs=inside, lower=True) == 2.0
    assert statistic({k: v for k, v in grid.items() if k != label(weight=1.0)}, pairs=inside) is None
    assert statistic({k: v for k, v in grid.items() if k != label(weight=0.1)}, pairs=inside) is None


def test_of_several_pairs_the_one_that_gains_least_counts() -> None:
    pairs: Any = [["b", "a"], ["d", "c"]]
    assert statistic({"a": 0.1, "b": 0.3, "c": 0.1, "d": 0.2}, pairs=pairs) == pytest.approx(0.1)
    assert statistic({"a": 0.1, "b": 0.3}, pairs=pairs) == pytest.approx(0.2)
    more = {"a": 0.1, "b": 0.3, "c": 0.1, "d": 0.15}
    assert statistic(more, kind="gains_more", pairs=pairs) == pytest.approx(0.15)
    assert statistic({"a": 0.1, "b": 0.3}, kind="gains_more", pairs=pairs) is None
    assert statistic({**more, "c": NAN}, kind="gains_more", pairs=pairs) is None


def test_a_run_that_should_be_ahead_and_diverged_counts_against_the_claim() -> None:
    def diverged(value: float | None) -> bool:
        return value is not None and math.isnan(value)

    for rates in ("", "best"):
        assert diverged(statistic({"x lr=0.1 a": 0.5, "x lr=0.1 b": NAN}, rates=rates))
        assert diverged(statistic({"x lr=0.1 a": NAN, "x lr=0.1 b": NAN}, rates=rates))
        assert statistic({"x lr=0.1 a": NAN, "x lr=0.1 b": 0.5}, rates=rates) is None, (
            "by how much is not known"
        )
    # A row in which the base diverged is left out.
    rows = {"x lr=0.1 a": NAN, "x lr=0.1 b": NAN, "x lr=0.2 a": 0.4, "x lr=0.2 b": 0.5}
    assert statistic(rows, rows="mean") == pytest.approx(0.1)
    assert diverged(statistic({**rows, "x lr=0.4 a": 0.4, "x lr=0.4 b": NAN}, rows="mean"))
    # A rival that diverged is none.
    assert statistic({"b": 0.5, "p": NAN, "q": 0.4}, than=["p", "q"]) == pytest.approx(0.1)


def test_each_method_has_the_learning_rate_that_is_best_on_validation_data() -> None:
    values = cells(
        {"x lr=0.1 a": 0.3, "x lr=0.2 a": 0.4, "x lr=0.1 b": 0.5, "x lr=0.2 b": 0.9, "x lr=0.3 b": NAN}
    )
    assert statistic(values, rates="best") == pytest.approx(0.5), "or by the values themselves"
    validation = {
        c.replace(measure="validation"): v for c, v in zip(values, (0.7, 0.1, 0.6, 0.2, 1.0), strict=True)
    }
    assert statistic({**values, **validation}, rates="best") == pytest.approx(0.5 - 0.3)
    both = {**values, **cells({"y lr=0.1 a": 0.2, "y lr=0.1 b": 0.1})}
    assert statistic(both, rates="best") == pytest.approx(-0.1), "the data with the smallest gap"
    assert statistic(both, rates="best", where={"data": ["x"]}) == pytest.approx(0.5)


def test_learning_rates_near_the_best_are_counted() -> None:
    values = cells(
        {"x lr=0.1 a": 0.5, "x lr=0.2 a": 0.1, "x lr=0.1 b": 0.6, "x lr=0.2 b": 0.6, "x lr=0.3 b": NAN}
    )
    assert near_best(values, 0.2) == {cell("x a"): [0.1], cell("x b"): [0.1, 0.2]}
    assert statistic(values, rates="near", rows="mean") == 1.0
    one = {c: v for c, v in values.items() if c.get("lr") == 0.1}
    assert statistic(one, rates="near", rows="mean") is None, "one learning rate says nothing"
    assert tolerance_cells(values)["x b best lr"] == "0.1"
    assert tolerance_cells(values)["x a within 5"] == "0.1"


def test_relative_margins_do_not_favor_a_low_curve() -> None:
    # 0.20 is 5 points, but a fifth, below 0.25; 0.50 is 5 points, a tenth, below 0.55.
    values = cells({"x lr=0.1 a": 0.25, "x lr=0.2 a": 0.20, "x lr=0.1 b": 0.55, "x lr=0.2 b": 0.50})
    assert near_best(values, 0.05) == {cell("x a"): [0.1, 0.2], cell("x b"): [0.1, 0.2]}
    assert near_best(values, 0.1, relative=True) == {cell("x a"): [0.1], cell("x b"): [0.1, 0.2]}


def test_an_unknown_key_of_a_claim_is_refused() -> None:
    with pytest.raises(ValidationError, match="bteter"):
        Claim(**{"sentence": "", "better": "b", "bteter": "a"})


def test_a_label_has_text_as_it_is_and_numbers_with_their_option() -> None:
    made = label(data="cifar10", alpha=0.1, method="fedavg", measure="")
    assert str(made) == "cifar10 alpha=0.1 fedavg"
    assert made.get("measure") == ""
    assert (
        str(label(data="cifar10", lr=0.1, norm="", method="fedavg+wsm batch"))
        == "cifar10 lr=0.1 fedavg+wsm batch"
    )


def test_parts_are_replaced_removed_and_added() -> None:
    made = label(data="mnist", method="fedavg")
    assert made.replace(method="wsm") == label(data="mnist", method="wsm")
    assert made.replace(method="") == label(data="mnist")
    assert str(made.replace(norm="group")) == "mnist fedavg group"


def test_a_selector_has_one_value_or_several_for_a_part() -> None:
    made = label(data="mnist", method="fedavg")
    assert made.matches({"data": "mnist", "norm": ""})
    assert made.matches({"method": ["wsm", "fedavg"]})
    assert not made.matches({"method": "wsm"})

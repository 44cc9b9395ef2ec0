"""On which runs a claim is judged: which seeds, which methods, how long they ran and what FedAvg reached."""

from dataclasses import replace

import pytest

from eunoe.config.settings import merge
from eunoe.papers.claims import Claim, Verdict
from eunoe.papers.comparisons import highest, lowest, mean_gain
from eunoe.papers.exhibit import Exhibit, PlannedRun, Scale, Variant
from eunoe.papers.judging import Judged
from eunoe.papers.keys import Key, key
from eunoe.papers.measures import Outcome, at_end, at_planned_end, height, rounds_to
from eunoe.papers.results import rows_and_verdicts
from tests.papers.made_up import COMMON, FEDAVG, WSM, tiny

FEDPROX = key(data="cifar10", method="fedprox")


def test_claims_are_judged_on_the_papers_data_where_there_are_some() -> None:
    exhibit = tiny(data={"name": "femnist"})
    gains = {False: 0.03, True: -0.15}

    def outcomes(stand_in: bool) -> list[tuple[PlannedRun, Outcome]]:
        return [
            (run, Outcome(run.values, {"accuracy": {3: 0.5 + gains[stand_in] * (run.key == WSM)}}))
            for run in exhibit.plan("full", [0, 1], stand_in=stand_in)
        ]

    both = rows_and_verdicts(exhibit, "full", outcomes(False) + outcomes(True)).verdicts[0]
    assert both.mean == pytest.approx(0.03)
    assert both.claim.sentence == "WSM is better"
    other = rows_and_verdicts(exhibit, "full", outcomes(True)).verdicts[0]
    assert other.mean == pytest.approx(-0.15)
    assert other.claim.sentence == "WSM is better (on other data than the paper's)"


@pytest.mark.parametrize(
    ("speaks_of", "said"),
    [
        (("fedavg",), ""),
        (("fedavg", "moon"), " (not compared: moon)"),
        (("fedavg", "moon", "feddf"), " (compared: fedavg only)"),
        (("moon",), " (not compared: moon)"),
    ],
)
def test_a_claim_names_what_it_speaks_of_and_is_not_compared(speaks_of: tuple[str, ...], said: str) -> None:
    claim = Claim("WSM beats all", highest(WSM, (FEDAVG,)), speaks_of=speaks_of)
    exhibit = Exhibit("wsm-table3", COMMON, tiny().variants, {"": at_end("accuracy")}, (claim,), {})
    outcomes = [(run, Outcome(run.values, {"accuracy": {3: 0.5}})) for run in exhibit.plan("full", [0, 1])]
    (verdict,) = rows_and_verdicts(exhibit, "full", outcomes).verdicts
    assert verdict.claim.sentence == f"WSM beats all{said}"


def test_a_seed_that_a_setting_was_chosen_on_counts_only_where_it_is_alone() -> None:
    claim = Claim("WSM beats all", highest(WSM, (FEDAVG,)), chosen_on={"full": (0,)})
    exhibit = Exhibit("wsm-table3", COMMON, tiny().variants, {"": at_end("accuracy")}, (claim,), {})
    gains = {0: 0.3, 1: 0.1, 2: 0.1}

    def judged(*seeds: int, scale: Scale = "full", rounds: int = 3) -> Verdict:
        runs = exhibit.plan(scale, seeds)
        outcomes = [
            (run, Outcome(run.values, {"accuracy": {rounds: 0.5 + gains[run.seed] * (run.key == WSM)}}))
            for run in runs
        ]
        return rows_and_verdicts(exhibit, scale, outcomes).verdicts[0]

    assert judged(0).word == "holds in one seed, calibrated on it"
    assert judged(1).word == "holds in one seed"
    assert judged(0, 1, 2).by_seed == pytest.approx((0.1, 0.1))
    # Nothing was chosen on smaller runs.
    assert judged(0, 1, 2, scale="small").by_seed == pytest.approx((0.3, 0.1, 0.1))
    # Below full scale the length is what makes networks learn.
    assert judged(1, 2, scale="small", rounds=2).word == "not tested"
    assert judged(1, 2, rounds=2).word == "seen"


def test_a_claim_speaks_of_the_methods_that_were_run_in_every_seed() -> None:
    claim = Claim("WSM beats all", highest(WSM, (FEDAVG,)), speaks_of=("fedavg", "fedprox"))
    more = (*tiny().variants, Variant(key(method="fedprox"), {}))
    exhibit = Exhibit("wsm-table3", COMMON, more, {"": at_end("accuracy")}, (claim,), {})
    runs = [r for r in exhibit.plan("full", [0, 1]) if r.seed == 0 or not r.key.has(method="fedprox")]
    accuracy = {"fedavg": 0.4, "fedavg+wsm": 0.5, "fedprox": 0.9}
    outcomes = [
        (run, Outcome(run.values, {"accuracy": {3: accuracy[str(run.key.get("method"))]}})) for run in runs
    ]
    (verdict,) = rows_and_verdicts(exhibit, "full", outcomes).verdicts
    assert verdict.claim.sentence == "WSM beats all (not compared: fedprox)"
    # FedProx wins in the seed that it was run in, and does not count there either.
    assert verdict.by_seed == pytest.approx((0.1, 0.1))
    # Where seeds have nothing to compare in common, one of them is judged.
    either = Claim("", highest(WSM, (FEDAVG, key(method="fedprox"))))
    absent = {0: "fedprox", 1: "fedavg"}
    parts = [
        (run, Outcome(run.values, {"accuracy": {3: accuracy[str(run.key.get("method"))]}}))
        for run in exhibit.plan("full", [0, 1])
        if not run.key.has(method=absent[run.seed])
    ]
    (verdict,) = rows_and_verdicts(replace(exhibit, claims=(either,)), "full", parts).verdicts
    assert verdict.by_seed == pytest.approx((0.1,))


def test_what_a_stopped_run_did_not_measure_is_not_judged() -> None:
    claims = (Claim("WSM ends higher", mean_gain("fedavg+wsm", "fedavg")),)
    exhibit = Exhibit("wsm-table3", COMMON, tiny().variants, {"": at_planned_end("accuracy")}, claims, {})
    fedavg, wsm = exhibit.plan("full", [0])

    def by_seed(of_wsm: Outcome) -> tuple[tuple[float, ...], int]:
        outcomes = [(fedavg, Outcome(COMMON, {"accuracy": {3: 0.5}})), (wsm, of_wsm)]
        verdict = rows_and_verdicts(exhibit, "full", outcomes).verdicts[0]
        return verdict.by_seed, verdict.diverged

    assert by_seed(Outcome(COMMON, {"accuracy": {2: 0.6}})) == ((), 0)
    assert by_seed(Outcome(COMMON, {"accuracy": {2: 0.6}}, diverged=True)) == ((), 1)


def test_a_round_that_was_not_reached_counts_as_the_one_after_the_last() -> None:
    exhibit = Exhibit("wsm-table3", COMMON, tiny().variants, {"": rounds_to(0.5)}, tiny().claims, {})
    fedavg, wsm = exhibit.plan("full", [0])
    outcomes = [
        (fedavg, Outcome(COMMON, {"accuracy": {3: 0.6}})),
        (wsm, Outcome(COMMON, {"accuracy": {3: 0.1}})),
    ]
    assert rows_and_verdicts(exhibit, "full", outcomes).verdicts[0].by_seed == (4 - 3,)


def test_what_a_stopped_run_leaves_open_is_no_success() -> None:
    claims = (Claim("WSM is faster", lowest(WSM, (FEDAVG,)), "rounds"),)
    exhibit = Exhibit("wsm-table3", COMMON, tiny().variants, {"": rounds_to(0.5)}, claims, {})
    fedavg, wsm = exhibit.plan("full", [0])

    def by_seed(of_fedavg: dict[int, float], of_wsm: dict[int, float]) -> tuple[float, ...]:
        outcomes = [
            (fedavg, Outcome(COMMON, {"accuracy": of_fedavg})),
            (wsm, Outcome(COMMON, {"accuracy": of_wsm})),
        ]
        return rows_and_verdicts(exhibit, "full", outcomes).verdicts[0].by_seed

    # FedAvg has not reached it in two rounds, so WSM has saved at least two.
    assert by_seed({2: 0.1}, {1: 0.6}) == (3 - 1,)
    stopped = rows_and_verdicts(exhibit, "full", [(fedavg, Outcome(COMMON, {"accuracy": {2: 0.1}}))])
    assert stopped.rows[0].ours == "more than 2"
    # WSM itself stopped before it got there, and might have needed any number.
    assert by_seed({3: 0.6}, {1: 0.1}) == ()
    # Neither got there, which says nothing.
    assert by_seed({3: 0.1}, {3: 0.1}) == ()


LONG = merge(COMMON, {"rounds": 9})
THREE = (*tiny().variants, Variant(FEDPROX, {"method": {"name": "fedprox", "mu": 0.1}}))
FASTER = Claim("WSM is faster", lowest(WSM, (FEDAVG,)), "rounds", chosen_on={"full": (0,)})


def judged(exhibit: Exhibit, accuracy: dict[tuple[int, Key], dict[int, float]]) -> Judged:
    outcomes = [
        (run, Outcome(run.values, {"accuracy": accuracy[run.seed, run.key]}))
        for run in exhibit.plan("full", [0, 1, 2])
        if (run.seed, run.key) in accuracy
    ]
    (found,) = rows_and_verdicts(exhibit, "full", outcomes).judged
    return found


def test_rounds_and_accuracy_are_those_of_what_is_judged() -> None:
    exhibit = Exhibit("wsm-table3", LONG, THREE, {"": rounds_to(0.5)}, (FASTER,), {})
    rounds = {
        # On seed 0 a setting was chosen.
        **{(0, FEDAVG): 8, (0, WSM): 3},
        **{(1, FEDAVG): 6, (1, WSM): 4},
        **{(2, FEDAVG): 5, (2, WSM): 4},
        # The claim does not speak of it.
        **{(seed, FEDPROX): 2 for seed in range(3)},
    }
    found = judged(exhibit, {line: {last: 0.9 - 0.1 * line[0]} for line, last in rounds.items()})
    assert found.verdict.by_seed == (2, 1)
    assert found.rounds == "4 to 6 of 9"
    assert [one.text() for one in found.reached] == ["FedAvg 75%"]
    assert found.networks == ("digits, logistic",)


def test_a_claim_without_fedavg_is_told_what_fedavg_reaches_in_its_seeds() -> None:
    claim = Claim("WSM is faster", lowest(WSM, (FEDPROX,)), "rounds")
    exhibit = Exhibit("wsm-table3", LONG, THREE, {"": rounds_to(0.5)}, (claim,), {})
    found = judged(exhibit, {(0, FEDPROX): {9: 0.9}, (0, WSM): {8: 0.9}, (0, FEDAVG): {3: 0.6}})
    assert found.rounds == "8 to 9 of 9"
    assert [one.text() for one in found.reached] == ["FedAvg 60%"]


def test_only_a_run_that_was_cut_short_is_shown_with_what_was_planned() -> None:
    until = merge(LONG, {"stop": {"test_target": 0.6}})
    exhibit = Exhibit("wsm-table3", until, THREE, {"": rounds_to(0.5)}, (FASTER,), {})
    assert judged(exhibit, {(1, FEDAVG): {7: 0.6}, (1, WSM): {5: 0.7}}).rounds == "5 to 7"
    assert judged(exhibit, {(1, FEDAVG): {7: 0.5}, (1, WSM): {5: 0.7}}).rounds == "5 to 7 of 9"


def test_a_diverged_run_has_no_length() -> None:
    claim = Claim("WSM ends higher", mean_gain("fedavg+wsm", "fedavg"))
    exhibit = Exhibit("wsm-table3", LONG, tiny().variants, {"": at_end("accuracy")}, (claim,), {})
    fedavg, wsm = exhibit.plan("full", [0])
    runs = [(fedavg, Outcome(LONG, {"accuracy": {4: 0.5}})), (wsm, Outcome(LONG, {}, diverged=True))]
    (found,) = rows_and_verdicts(exhibit, "full", runs).judged
    assert (found.verdict.diverged, found.rounds) == (1, "4 of 9")


def test_the_first_rounds_are_those_of_the_claim() -> None:
    measures = {"": at_end("accuracy"), "early": height("accuracy", last=2)}
    early = Claim("early", mean_gain("fedavg+wsm", "fedavg", "early"))
    late = Claim("late", mean_gain("fedavg+wsm", "fedavg"))
    exhibit = Exhibit("wsm-table3", COMMON, tiny().variants, measures, (early, late), {})
    runs = [
        (run, Outcome(run.values, {"accuracy": {1: 0.1, 2: 0.2, 3: 0.6}}))
        for run in exhibit.plan("full", [0])
    ]
    first, second = rows_and_verdicts(exhibit, "full", runs).judged
    assert [one.text() for one in first.reached] == ["FedAvg 60% (20% by round 2)"]
    assert [one.text() for one in second.reached] == ["FedAvg 60%"]


def test_what_was_chosen_on_all_seeds_is_marked() -> None:
    claim = Claim("WSM is better", mean_gain("fedavg+wsm", "fedavg"), chosen_on={"full": (0, 1, 2)})
    exhibit = replace(tiny(), claims=(claim,))
    runs = [
        (run, Outcome(run.values, {"accuracy": {3: 0.5 + 0.1 * (run.key == WSM)}}))
        for run in exhibit.plan("full", [0, 1, 2])
    ]
    (verdict,) = rows_and_verdicts(exhibit, "full", runs).verdicts
    assert verdict.word == "seen, calibrated on these seeds"


def test_below_full_scale_a_run_that_is_too_short_gives_no_length() -> None:
    exhibit = tiny()
    outcomes = [(run, Outcome(run.values, {"accuracy": {1: 0.5}})) for run in exhibit.plan("small", [0])]
    (found,) = rows_and_verdicts(exhibit, "small", outcomes).judged
    assert (found.verdict.word, found.rounds, found.reached) == ("not tested", "", ())

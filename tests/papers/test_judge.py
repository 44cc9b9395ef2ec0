"""Verdicts: pairing by seed, horizons, which seeds and arms count, and when a network is trained."""

import math
from pathlib import Path
from typing import Any

import pytest

from eunoe_papers.claims import Label, label
from eunoe_papers.experiment import Arm, Experiment, PlannedRun, Scale
from eunoe_papers.judge import CENTRAL, Verdict, fedavg_accuracy, needed, network, untrained
from eunoe_papers.loader import find_experiment
from eunoe_papers.measures import Measure, Outcome
from eunoe_papers.outcomes import Reading
from eunoe_papers.results import collect_outcomes
from eunoe_papers.store import load
from tests.papers.made_up import BETTER, FEDAVG, WSM, measures, tiny

RUNS = Path(__file__).parent.parent.parent / "results" / "runs"
FEDPROX = label(data="cifar10", method="fedprox")
END = measures(main={"kind": "at_end"})
ROUNDS = measures(main={"kind": "rounds_to", "target": 0.5})
FASTER: dict[str, Any] = {
    "sentence": "WSM is faster", "better": "fedavg+wsm", "than": "fedavg", "lower": True, "unit": "rounds",
}  # fmt: skip


def judge(
    experiment: Experiment, accuracy: dict[tuple[int, Label], dict[int, float] | None], scale: Scale = "full"
) -> Verdict:
    """Judge the first claim on runs of these accuracies by round; None diverged."""
    outcomes = []
    for run in experiment.plan(scale, sorted({seed for seed, _ in accuracy})):
        if (run.seed, run.arm) in accuracy:
            values = accuracy[run.seed, run.arm]
            series = {} if values is None else {"accuracy": values}
            outcomes.append((run, Outcome(run.values, series, diverged=values is None)))
    return collect_outcomes(experiment, scale, outcomes).verdicts[0]


def gains(*values: float, last: int = 3) -> dict[tuple[int, Label], dict[int, float] | None]:
    """Runs of seeds 0, 1, ... in which WSM gains so much; NaN diverged."""
    runs: dict[tuple[int, Label], dict[int, float] | None] = {}
    for seed, gain in enumerate(values):
        runs[seed, FEDAVG] = {last: 0.5}
        runs[seed, WSM] = None if math.isnan(gain) else {last: 0.5 + gain}
    return runs


def test_pairing_by_seed_sees_what_means_hide() -> None:
    runs: dict[tuple[int, Label], dict[int, float] | None] = {}
    for seed, (low, high) in enumerate(((0.4, 0.42), (0.5, 0.521), (0.9, 0.919))):
        runs |= {(seed, FEDAVG): {3: low}, (seed, WSM): {3: high}}
    verdict = judge(tiny(update={"measures": END}), runs)
    assert verdict.word == "confirmed"
    # Deviation 0.001; t(2) = 4.303; 4.303 * 0.001 / sqrt(3) = 0.0025.
    assert verdict.text() == "confirmed: +2.00 points [+1.75, +2.25], 3 seeds"
    swapped = {**BETTER, "better": "fedavg", "than": "fedavg+wsm"}
    assert judge(tiny(swapped, update={"measures": END}), runs).word == "contradicted"


def test_an_interval_around_zero_is_inconclusive() -> None:
    experiment = tiny(update={"measures": END})
    assert judge(experiment, gains(0.01, 0.2, 0.0)).word == "inconclusive"
    assert judge(experiment, gains(0.0, 0.0, 0.0)).word == "inconclusive"
    assert (
        judge(experiment, gains(0.25, 0.25, 0.25)).text()
        == "confirmed: +25.00 points [+25.00, +25.00], 3 seeds"
    )


def test_three_seeds_are_needed() -> None:
    verdict = judge(tiny(update={"measures": END}), gains(0.1, 0.1))
    assert verdict.text() == "not tested: fewer than 3 seeds, +10.00 points [+10.00, +10.00], 2 seeds"
    missing = judge(tiny(update={"measures": END}), {(0, FEDAVG): {3: 0.5}})
    assert missing.text() == "not tested: the runs that it compares are missing or too short"


def test_a_seed_that_diverged_counts_against_the_claim() -> None:
    experiment = tiny(update={"measures": END})
    verdict = judge(experiment, gains(0.2, 0.201, math.nan))
    assert verdict.word == "inconclusive"
    assert verdict.text().endswith("3 seeds, diverged in 1")
    assert (
        judge(experiment, gains(math.nan, math.nan, math.nan)).text()
        == "contradicted: 3 seeds, diverged in 3"
    )


@pytest.mark.parametrize(
    ("by_seed", "word"),
    [
        ((-0.001, 0.0, 0.001), "confirmed"),
        ((-0.025, -0.026, -0.027), "confirmed"),
        ((-0.029, -0.03, -0.031), "inconclusive"),
        ((-0.039, -0.04, -0.041), "contradicted"),
        ((0.05, -0.05, 0.0), "inconclusive"),
    ],
)
def test_about_equal_is_judged_by_where_the_interval_lies(by_seed: tuple[float, ...], word: str) -> None:
    experiment = tiny({**BETTER, "within": 0.03}, update={"measures": END})
    assert judge(experiment, gains(*by_seed)).word == word


def test_spread_over_seeds_by_hand() -> None:
    claim = {**BETTER, "lower": True, "spread": True}
    # Distances from the medians 0.4 and 0.5: 0.3, 0.2, 0.1, 0, 0.1, 0.2, 0.3 and 0, 0, 0.1, 0, 0, 0.1, 0.
    pairs = list(zip((0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7), (0.5, 0.5, 0.4, 0.5, 0.5, 0.6, 0.5), strict=True))
    runs: dict[tuple[int, Label], dict[int, float] | None] = {}
    for seed, (low, high) in enumerate(pairs):
        runs |= {(seed, FEDAVG): {3: low}, (seed, WSM): {3: high}}
    experiment = tiny(claim, update={"measures": END})
    verdict = judge(experiment, runs)
    assert verdict.by_seed == pytest.approx([0.3, 0.2, 0.0, 0.0, 0.1, 0.1, 0.3])
    assert verdict.word == "confirmed"
    assert judge(experiment, {key: run for key, run in runs.items() if key[0] < 4}).word == "not tested"


def rounds(
    *pairs: tuple[int | None, int | None], length: int = 9
) -> dict[tuple[int, Label], dict[int, float] | None]:
    """Runs in which FedAvg and WSM reach 50% in these rounds, or do not within a length."""
    runs: dict[tuple[int, Label], dict[int, float] | None] = {}
    for seed, pair in enumerate(pairs):
        for arm, reached in zip((FEDAVG, WSM), pair, strict=True):
            runs[seed, arm] = (
                {1: 0.4, length: 0.4} if reached is None else {1: 0.4, reached: 0.9, length: 0.9}
            )
    return runs


def test_rounds_to_a_target_are_compared_up_to_the_common_horizon() -> None:
    experiment = tiny(FASTER, update={"measures": ROUNDS}, rounds=9)
    verdict = judge(experiment, rounds((5, 2), (6, 3), (7, 5)))
    assert verdict.by_seed == (3, 3, 2)
    # FedAvg did not reach it within 8 of 9 rounds in seed 1, so that 8 is the horizon of all seeds.
    runs = {**rounds((9, 2), (None, 3), (7, 5)), (1, FEDAVG): {1: 0.4, 8: 0.4}}
    verdict = judge(experiment, runs)
    assert verdict.by_seed == (8 - 2, 8 - 3, 7 - 5)
    assert verdict.reached == (
        "cifar10 fedavg reached it in 1 of 3 seeds, cifar10 fedavg+wsm reached it in 3 of 3 seeds"
    )
    # A diverged run never gets there; its horizon is the planned one.
    assert judge(experiment, {**rounds((5, 2), (6, 3), (7, 5)), (0, FEDAVG): None}).by_seed == (9 - 2, 3, 2)


def test_a_target_that_no_arm_reaches_by_the_common_horizon_is_not_tested() -> None:
    experiment = tiny(FASTER, update={"measures": ROUNDS}, rounds=9)
    verdict = judge(experiment, rounds((None, None), (None, None), (None, None)))
    assert verdict.text().startswith(
        "not tested: no arm reaches the target within the common horizon of 9 rounds"
    )
    # A run that was stopped after two rounds leaves no common horizon that says anything.
    runs = {**rounds((5, 3), (5, 3), (5, 3)), (0, WSM): {1: 0.1, 2: 0.1}}
    assert judge(experiment, runs).reason.endswith("common horizon of 2 rounds")
    assert judge(experiment, runs).by_seed == ()


def test_claims_are_judged_on_the_papers_data_where_there_are_some() -> None:
    experiment = tiny(update={"measures": END}, data={"name": "femnist"})

    def outcomes(stand_in: bool, gain: float) -> list[tuple[PlannedRun, Outcome]]:
        return [
            (run, Outcome(run.values, {"accuracy": {3: 0.5 + gain * (run.arm == WSM)}}))
            for run in experiment.plan("full", [0, 1, 2], stand_in=stand_in)
        ]

    real, other = outcomes(False, 0.03), outcomes(True, -0.15)
    (both,) = collect_outcomes(experiment, "full", real + other).verdicts
    assert both.effect.mean == pytest.approx(0.03)
    assert both.sentence == "WSM is better"
    (only,) = collect_outcomes(experiment, "full", other).verdicts
    assert only.sentence == "WSM is better (on other data than the paper's)"


def three_arms(*claims: dict[str, Any], **update: Any) -> Experiment:
    arms = (*tiny().arms, Arm(label=FEDPROX, changes={"method": {"name": "fedprox", "mu": 0.1}}))
    return tiny(*claims, update={"arms": arms, "measures": END, **update})


def test_all_seeds_are_compared_on_the_same_arms_and_what_is_left_out_is_named() -> None:
    claim = {"sentence": "WSM beats all", "better": "fedavg+wsm", "than": ["fedavg", "fedprox"]}
    # FedProx wins in the seed that it was run in, and does not count there either.
    runs = {**gains(0.1, 0.1, 0.1), (0, FEDPROX): {3: 0.9}}
    verdict = judge(three_arms(claim), runs)
    assert verdict.sentence == "WSM beats all (not compared: fedprox)"
    assert verdict.by_seed == pytest.approx((0.1, 0.1, 0.1))
    # Where seeds have no arms in common, nothing is compared.
    apart = {**gains(0.1, 0.1, 0.1), (0, FEDPROX): {3: 0.9}}
    del apart[0, FEDAVG]
    assert judge(three_arms(claim), apart).word == "not tested"


def test_data_sets_that_were_not_run_are_named() -> None:
    other = [Arm(label=arm.label.replace(data="cifar100"), changes={}) for arm in tiny().arms]
    experiment = tiny(update={"arms": (*tiny().arms, *other), "measures": END})
    assert judge(experiment, gains(0.1, 0.1, 0.1)).sentence == "WSM is better (not run: cifar100)"


def test_seeds_that_a_setting_was_chosen_on_do_not_count() -> None:
    experiment = tiny({**BETTER, "chosen_on": {"full": [0]}}, update={"measures": END})
    assert judge(experiment, gains(0.3, 0.1, 0.1, 0.1)).by_seed == pytest.approx((0.1, 0.1, 0.1))
    all_seeds = tiny({**BETTER, "chosen_on": {"full": [0, 1, 2]}}, update={"measures": END})
    assert judge(all_seeds, gains(0.3, 0.1, 0.1)).reason == "a setting or the claim was chosen on these seeds"
    # Nothing was chosen on smaller runs.
    assert judge(experiment, gains(0.3, 0.1, 0.1), "small").by_seed == pytest.approx((0.3, 0.1, 0.1))


def test_below_full_scale_runs_need_all_of_their_rounds() -> None:
    experiment = tiny(update={"measures": END})
    verdict = judge(experiment, gains(0.1, 0.1, 0.1, last=1), "small")
    assert (verdict.word, verdict.by_seed) == ("not tested", ())
    assert len(judge(experiment, gains(0.1, 0.1, 0.1, last=1)).by_seed) == 3


def test_a_run_that_ends_at_its_target_has_its_full_length() -> None:
    (run, *_) = tiny(stop={"test_target": 0.6}).plan("full", [0])
    lengths = [
        Reading(
            run, Outcome(run.values, {"accuracy": {2: accuracy}}), Measure(kind="at_end"), accuracy
        ).length
        for accuracy in (0.6, 0.5)
    ]
    assert lengths == [(2, 2), (2, 3)]


@pytest.mark.parametrize(
    ("fedavg", "reason"),
    [(0.6, ""), (0.2, "FedAvg reaches 25.0% on digits, less than the 33.3% needed")],
)
def test_fedavg_has_to_be_trained_for_a_claim_without_it_too(fedavg: float, reason: str) -> None:
    runs: dict[tuple[int, Label], dict[int, float] | None] = {}
    for seed in range(3):
        runs |= {(seed, FEDPROX): {9: 0.9}, (seed, WSM): {8: 0.9}, (seed, FEDAVG): {3: fedavg + 0.05 * seed}}
    claim = {**FASTER, "than": "fedprox"}
    assert judge(three_arms(claim, measures=ROUNDS), runs).reason == reason


def test_an_untrained_network_gets_no_verdict() -> None:
    runs = {key: {3: value[3] - 0.4} for key, value in gains(0.1, 0.1, 0.1).items() if value}
    verdict = judge(tiny(update={"measures": END}), {**runs})
    assert verdict.reason == "FedAvg reaches 10.0% on digits, less than the 33.3% needed"
    assert judge(tiny(update={"measures": END, "needs_training": False}), {**runs}).word == "confirmed"


def readings(runs: list[tuple[PlannedRun, dict[int, float] | None]]) -> list[Reading]:
    return [
        Reading(
            run,
            Outcome({}, {"accuracy": values} if values else {}, values is None),
            Measure(kind="at_end"),
            0.0,
        )
        for run, values in runs
    ]


def test_fedavg_reaches_the_median_of_the_last_third() -> None:
    (run,) = find_experiment("flashback-table1-cifar10").plan("full", [0], only="fedavg")
    values = dict(enumerate((0.9, 0.9, 0.9, 0.9, 0.1, 0.2, 0.6), 1))
    # A third of seven rounds is two.
    assert list(fedavg_accuracy(readings([(run, values)])).values()) == pytest.approx([0.4])
    assert fedavg_accuracy(readings([(run, None)])) == {}


def test_a_third_of_central_accuracy_and_twice_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CENTRAL["cifar10"], "cnn", 0.66)
    assert needed(("cifar10", "cnn")) == pytest.approx(0.22)
    monkeypatch.setitem(CENTRAL["cifar10"], "cnn", 0.45)
    assert needed(("cifar10", "cnn")) == pytest.approx(0.2)
    assert needed(("cifar10", "a network of somebody")) == pytest.approx(1 / 3)
    monkeypatch.setitem(CENTRAL["cifar10"], "lenet", 0.69)
    assert needed(("cifar10", "lenet on quarter-size images")) == pytest.approx(0.23)
    monkeypatch.setitem(CENTRAL["cifar10"], "lenet on quarter-size images", 0.66)
    assert needed(("cifar10", "lenet on quarter-size images")) == pytest.approx(0.22)


def test_a_network_is_told_by_its_width_and_its_images() -> None:
    (run,) = find_experiment("wsm-table4-norms").plan("medium", [0], only="cifar10 fedavg batch")
    assert network(run.values) == ("cifar10", "resnet18 of width 8 on half-size images")
    (run,) = find_experiment("wsm-table3").plan("full", [0], only="cifar10 fedavg")
    assert network(run.values) == ("cifar10", "lenet")


def reason(name: str, scale: Scale, accuracy: dict[str, float], otherwise: float | None = None) -> str:
    """Why runs are too little trained, where arms reach these accuracies."""
    runs = [
        (run, {9: accuracy.get(run.line, otherwise or 0.0)})
        for run in find_experiment(name).plan(scale, [0])
        if otherwise is not None or run.line in accuracy
    ]
    return untrained(readings(list(runs)))


def test_fedavg_decides_and_else_the_median_arm() -> None:
    table = "flashback-table1-cifar10"
    assert reason(table, "full", {"fedavg": 0.4, "flashback": 0.1}) == ""
    assert reason(table, "full", {"fedavg": 0.19, "flashback": 0.6}).startswith(
        "FedAvg reaches 19.0% on cifar10"
    )
    assert "12.0%" in reason(table, "full", {"flashback": 0.6, "fedntd": 0.12})
    assert reason(table, "full", {"flashback": 0.6, "fedntd": 0.12, "fedprox": 0.5}) == ""
    # FedAvg with something added is not FedAvg.
    assert "30.0%" in reason("stream-recorded", "full", {"fedavg": 0.3, "fedavg+everything": 0.9}, 0.8)


def test_the_best_learning_rate_counts_and_the_worst_setting() -> None:
    assert reason("wsm-table5", "small", {"cifar10 lr=0.05 fedavg": 0.3}, 0.1) == ""
    worst = {f"alpha=0.01 {method}": 0.12 for method in ("fedavg", "fedavg+wsm")}
    assert reason("wsm-fig6-lenet", "small", worst, 0.3).startswith("FedAvg reaches 12.0%")


def test_central_accuracies_are_those_of_the_stored_runs() -> None:
    stored: dict[tuple[str, str], float] = {}
    for run in load(RUNS / "central-bounds.parquet"):
        if run.records.config["method"]["on"] == "all":
            config = run.records.config
            width = {"width": config["model"]["width"]} if "width=8" in run.key.line else {}
            which = network({**config, "model": {"name": config["model"]["name"], **width}})
            last = run.records.metrics[-1]["test"]["accuracy"]
            stored[which] = max(stored.get(which, 0.0), last)
    known = {(data, name): value for data, names in CENTRAL.items() for name, value in names.items()}
    assert {which: round(value, 3) for which, value in stored.items()} == known

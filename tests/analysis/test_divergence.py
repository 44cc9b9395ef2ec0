"""When a run has diverged and when a model is useless: the rules by hand, and where they show."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from eunoe.analysis.comparison import MAIN, Comparison
from eunoe.analysis.diagnosis import diagnose, forgets_little
from eunoe.analysis.divergence import (
    REGRESSION_CHANCE,
    Health,
    chance_among,
    divergence,
    find_outlier,
    never_learned,
    over_seeds,
    usefulness,
    why_diverged,
)
from eunoe.analysis.summary import summarize
from eunoe.config.schema import make_config
from eunoe.report.summary import summary_html, warnings
from eunoe.store.run_records import RunRecords

# Ten classes: chance is .1, up to .12 counts as chance, clearly above is .19, and a loss explodes at 23.03.
FINE = [1.0] * 20


@pytest.mark.parametrize(
    ("accuracy", "loss", "why"),
    [
        ([0.5, 0.6, 0.7], [1.0, 0.9, 0.8], ""),
        # The loss exploded, the accuracy is at chance: over the last three rounds, not over the last two.
        ([0.5, 0.6, 0.1, 0.1, 0.1], [1.0, 1.0, 4e26, 4e26, 4e26], "its loss ended at 4e+26"),
        ([0.5, 0.6, 0.6, 0.1, 0.1], [1.0, 1.0, 1.0, 4e26, 4e26], ""),
        # Below half of the best (.6) is dead too; a large loss alone is not.
        ([0.6, 0.29, 0.29, 0.29], [1.0, 24.0, 24.0, 24.0], "its loss ended at 24"),
        ([0.6, 0.31, 0.31, 0.31], [1.0, 24.0, 24.0, 24.0], ""),
        ([0.6, 0.29, 0.29, 0.29], [1.0, 23.0, 23.0, 23.0], ""),
        ([0.6, 0.6, 0.6], [math.inf] * 3, "its loss is no longer finite"),
        ([0.6, 0.6, 0.6], [1.0, 1.0, math.inf], "its loss is no longer finite"),
        ([0.6, 0.6, 0.6], [math.inf, math.inf, 1.0], ""),
        ([0.1], [1e9], "its loss ended at 1e+09"),
        # A loss that was not measured says nothing.
        ([0.1, 0.1, 0.1], [math.nan] * 3, ""),
        # Ten rounds at chance after a round clearly above it; not nine, and not after a round just above.
        ([0.19] + [0.12] * 10, FINE[:11], "its accuracy fell from 19.0% to chance"),
        ([0.18] + [0.12] * 10, FINE[:11], ""),
        ([0.7] * 3 + [0.1] * 9, FINE[:12], ""),
        ([0.7] * 3 + [0.1] * 9 + [0.13], FINE[:13], ""),
        ([], [], ""),
    ],
)
def test_the_rule_with_ten_classes(accuracy: list[float], loss: list[float], why: str) -> None:
    found = why_diverged(accuracy, loss, chance_among(10))
    assert found.startswith(why)
    assert bool(found) == bool(why)


def test_chance_and_clearly_above_with_other_numbers_of_classes() -> None:
    assert never_learned([0.52] * 10, chance_among(2))
    assert not never_learned([0.53] * 10, chance_among(2))
    assert never_learned([0.012] * 10, chance_among(100))
    assert not never_learned([0.013] * 10, chance_among(100))
    # With 100 classes .03 is clearly above chance, with two .55.
    assert why_diverged([0.03] + [0.01] * 10, FINE[:11], chance_among(100))
    assert why_diverged([0.55] + [0.5] * 10, FINE[:11], chance_among(2))
    assert not why_diverged([0.54] + [0.5] * 10, FINE[:11], chance_among(2))
    assert not why_diverged([1.0] + [1.0] * 10, [1e9] * 11, chance_among(1))


def test_a_run_that_was_never_above_chance_did_not_diverge() -> None:
    assert never_learned([0.1] * 10, chance_among(10))
    assert not never_learned([0.1] * 9, chance_among(10))
    assert not never_learned([0.1] * 9 + [0.13], chance_among(10))
    assert not why_diverged([0.1] * 30, [2.3] * 30, chance_among(10))


def made_up(label: str, accuracy: float, loss: float | None, forgetting: float) -> RunRecords:
    lines = [
        {
            "round": round,
            "test": {"accuracy": accuracy, "loss": loss, "per_class": [accuracy] * 10},
            "forgetting": {"round": forgetting, "fedntd": 0.0},
        }
        for round in (1, 2, 3, 4)
    ]
    return RunRecords(label, lines, config=make_config({"name": label}).model_dump(mode="json"))


def test_a_dead_model_is_never_said_to_forget_least() -> None:
    good, better = made_up("good", 0.6, 1.0, 0.1), made_up("better", 0.7, 1.0, 0.05)
    # In a file a loss that is not finite is null.
    dead = made_up("dead", 0.1, None, 0.0)
    assert divergence(dead) == "its loss is no longer finite"
    said = summary_html({"good": [good], "better": [better], "dead": [dead]})
    assert "good has accuracy 0.600 (one seed" in said
    assert "dead diverged." in said
    assert '<td class="number">NC</td>' in said
    assert Comparison([good, dead]).table(MAIN).rows == [
        ["good", "1", "0.600", "0.1000"],
        ["dead", "1", "NC", "NC"],
    ]
    assert summarize(dead).sentences()[0] == "The run diverged: its loss is no longer finite."
    assert "diverged" not in " ".join(summarize(good).sentences())


def test_the_status_has_the_last_word() -> None:
    run = made_up("run", 0.6, 1.0, 0.1)
    ended = replace(run, status={"state": "diverged", "round": 4, "reason": "not finite"})
    assert (divergence(run), divergence(ended)) == ("", "not finite")


def record(accuracy: float, loss: float | None = 1.0) -> dict[str, Any]:
    return {"test": {"accuracy": accuracy, "loss": loss, "per_class": [accuracy] * 10}}


@pytest.mark.parametrize(
    ("records", "good"),
    [
        ([], True),
        ([record(0.1), record(0.1)], True),
        ([record(0.1), record(0.9)], True),
        ([record(0.9), record(0.1)], False),
        ([record(0.9), record(0.1), {"round": 3}], False),
        ([record(0.9), record(0.1), record(0.8)], True),
        ([record(0.9), record(0.9, None)], False),
        ([record(0.9), record(0.4, 25.0)], False),
        ([record(0.9), record(0.5, 25.0)], True),
    ],
)
def test_whether_the_last_evaluated_round_looks_well(records: list[dict[str, Any]], good: bool) -> None:
    assert Health(records).good is good


def test_the_client_with_the_outlying_norm_is_named() -> None:
    records = [
        {"round": 1, "clients": [4, 5, 6], "update_norms": [1.0, 2.0, 3.0]},
        {"round": 2, "clients": [7, 5, 6], "update_norms": [2.0, 1000.0, 4.0]},
        {"round": 3, "clients": [4, 8, 6], "update_norms": [2.0, 50.0, 4.0]},
        {"round": 4, "clients": [9], "update_norms": [1e9]},
    ]
    assert find_outlier(records) == (
        "client 5's update in round 2 stands out: its norm of 1e+03 is 250 times the round's median"
    )
    assert find_outlier(records[:1]) == find_outlier(records[3:]) == ""


def test_numbers_are_judged_by_what_their_mean_explains() -> None:
    assert never_learned([0.02] * 10, REGRESSION_CHANCE)
    assert not never_learned([0.02] * 9 + [0.03], REGRESSION_CHANCE)
    assert why_diverged([0.3, -20.0, -20.0, -20.0], [0.7, 21.0, 21.0, 21.0], REGRESSION_CHANCE)
    assert not why_diverged([0.3, -5.0, -5.0, -5.0], [0.7, 6.0, 6.0, 6.0], REGRESSION_CHANCE)
    fell = why_diverged([0.1] + [0.0] * 10, FINE[:11], REGRESSION_CHANCE)
    assert fell == "its R² fell from 10.0% to chance and stayed there"


def test_labels_are_judged_by_balanced_accuracy() -> None:
    def run(balanced: float, loss: float | None) -> RunRecords:
        test = {"f1": 0.4, "loss": loss, "per_class": [balanced, balanced, None]}
        return RunRecords("a", [{"round": number, "clients": [0], "test": test} for number in range(1, 12)])

    assert summarize(run(0.5, 0.7))["trouble"] == "Its accuracy never rose above chance."
    assert summarize(run(0.6, 0.7))["trouble"] == ""
    assert divergence(run(0.5, 7.0)) == "its loss ended at 7, more than 10 times that of a uniform guess"
    assert divergence(run(0.8, None)) == "its loss is no longer finite"


def ended(
    accuracy: float, per_class: Sequence[float | None], counts: Any = None, **options: Any
) -> RunRecords:
    """Two equal rounds, the second of them probed: nothing is forgotten."""
    test = {"accuracy": accuracy, "loss": 1.0, "per_class": list(per_class)}
    metrics = [
        {
            "round": t,
            "clients": [0],
            "sizes": [10],
            "steps": [5],
            "test": test,
            "forgetting": {"round": lost, "fedntd": 0.0},
        }
        for t, lost in ((1, None), (2, 0.0))
    ]
    each = list(per_class)
    probe = {"probe": "local_per_class", "round": 2, "clients": [0], "start": each, "local": [each]}
    counts = None if counts is None else np.array(counts, np.float64)
    return RunRecords(
        "run",
        metrics,
        [{**probe, "merged": each}],
        config=make_config({}).model_dump(mode="json"),
        label_counts=counts,
        **options,
    )


# 1000 samples, 100 of them ill: 3 of these and all 900 others are right.
IMBALANCED = ended(0.903, [0.03, 1.0], class_names=["ill", "well"])


def test_a_model_that_predicts_the_majority_class() -> None:
    found = usefulness(IMBALANCED)
    assert found.useless
    # 997 of 1000 are predicted to be well.
    assert found.sentence == (
        "Predicts class 'well' for 100% of the samples: accuracy 0.903, where the majority class alone gives "
        "0.900; balanced accuracy 0.52, no better than chance."
    )


def test_the_share_of_predictions_follows_from_two_accuracies() -> None:
    # 80 of class 0 and 20 of class 1: 72 + 18 are predicted as class 0.
    found = usefulness(ended(0.74, [0.9, 0.1]))
    assert "class '0' for 90% of the samples: accuracy 0.740" in found.sentence
    assert "where the majority class alone gives 0.800" in found.sentence


def test_chance_among_several_classes() -> None:
    each = [0.2, 0.1, 0.1, 0.05, 0.1, 0.1, 0.1, 0.098]
    assert usefulness(ended(0.106, each)) == ("Balanced accuracy 0.11, no better than chance.", True)


def test_one_class_of_several_is_known() -> None:
    found = usefulness(ended(0.4, [0.95, 0.0, 0.1]))
    words = "Only class '0' is predicted well (95%, others at most 10%); balanced accuracy 0.35, no better"
    assert found.useless
    assert found.sentence.startswith(words)


@pytest.mark.parametrize(("counts", "useless"), [([[60, 20, 20]], True), ([[34, 33, 33]], False)])
def test_the_majority_class_counts_below_a_clear_gain(counts: Any, useless: bool) -> None:
    # Balanced 0.38: above chance (0.333 + 0.02), below a clear gain (0.4).
    found = usefulness(ended(0.5, [0.7, 0.22, 0.22], counts))
    assert found.useless == useless
    assert ("chance gives 0.33" in found.sentence) == useless


def test_a_balanced_model_may_have_less_accuracy_than_the_majority_class() -> None:
    assert usefulness(ended(0.8, [0.8, 0.8], [[900, 100]])) == ("", False)


def test_a_useful_model_that_misses_classes() -> None:
    found = usefulness(ended(0.6, [0.9, 0.0, 0.9, None], class_names=["a", "b", "c", "d"]))
    assert found == ("Accuracy is below 1% on 'b'.", False)


def test_other_tasks() -> None:
    labels = {"f1": 0.3, "loss": 1.0, "per_class": [0.5, 0.53]}
    assert usefulness(RunRecords("m", [{"round": 1, "test": labels}])).useless
    assert not usefulness(
        RunRecords("m", [{"round": 1, "test": {**labels, "per_class": [0.5, 0.8]}}])
    ).useless
    assert usefulness(RunRecords("r", [{"round": 1, "test": {"r2": 0.01, "loss": 1.0}}])).useless
    assert not usefulness(RunRecords("r", [{"round": 1, "test": {"r2": 0.4, "loss": 1.0}}])).useless


def test_it_comes_before_forgetting_and_in_place_of_reassurance() -> None:
    diagnosis = diagnose(IMBALANCED)
    assert diagnosis.kind == "useless"
    assert not diagnosis.remedies
    assert diagnosis.sentences[0] == usefulness(IMBALANCED).sentence
    assert not any("nothing to cure" in sentence for sentence in diagnosis.sentences)
    assert not forgets_little(IMBALANCED)
    useful = ended(0.95, [0.9, 0.96])
    assert diagnose(useful).kind == "little"
    assert forgets_little(useful)


def test_tables_and_cards_of_several_seeds_say_in_how_many() -> None:
    (warning,) = Comparison([IMBALANCED]).warnings()
    assert warning.endswith(usefulness(IMBALANCED).sentence)
    assert warning in repr(Comparison([IMBALANCED]))
    assert over_seeds(["", "It fails."]) == "It fails (1 of 2 seeds)."
    assert over_seeds(["", ""]) == ""
    useful = ended(0.95, [0.9, 0.96])
    (line,) = warnings({"both": [useful, IMBALANCED]})
    assert line.startswith("both: ")
    assert line.endswith("no better than chance (1 of 2 seeds).")

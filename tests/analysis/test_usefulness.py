"""Models that are no better than chance or the majority class are named before their forgetting."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from eunoe.analysis.comparison import Comparison
from eunoe.analysis.diagnosis import diagnose, forgets_little
from eunoe.analysis.usefulness import over_seeds, usefulness
from eunoe.config.schema import make_config
from eunoe.report.summary import warnings
from eunoe.store.run_records import RunRecords


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

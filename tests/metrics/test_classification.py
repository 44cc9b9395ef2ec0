"""Balanced accuracy, macro-F1, AUROC and calibration error, by hand and in runs."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunoe.errors import InputError
from eunoe.metrics import Evaluation, Predictions
from eunoe.metrics.classification import AUROC, BalancedAccuracy, CalibrationError, MacroF1
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from eunoe.trackers import scalars
from tests.helpers import blobs


def evaluation(labels: list[int], classes: list[int], count: int = 3, logits: Any = None) -> Evaluation:
    zeros = np.zeros(len(labels))
    given = None if logits is None else np.asarray(logits, np.float64)
    return Evaluation(Predictions(np.array(classes), zeros, zeros[:count], given), np.array(labels), count)


# Of class 0 three of four are right, of class 1 one of two; the single sample of class 2 is called 0.
LABELS, PREDICTED = [0, 0, 0, 0, 1, 1, 2], [0, 0, 0, 1, 1, 0, 0]


def test_balanced_accuracy() -> None:
    every = BalancedAccuracy(min_support=1).measure(evaluation(LABELS, PREDICTED))
    assert every == {"value": pytest.approx((3 / 4 + 1 / 2 + 0) / 3), "support": 7, "classes": 3}
    two = BalancedAccuracy(min_support=2).measure(evaluation(LABELS, PREDICTED))
    assert two == {"value": pytest.approx((3 / 4 + 1 / 2) / 2), "support": 6, "classes": 2}
    assert BalancedAccuracy(min_support=3).measure(evaluation(LABELS, PREDICTED)) is None


def test_macro_f1() -> None:
    # Class 0: precision 3/5, recall 3/4, F1 2/3. Class 1: precision 1/2, recall 1/2, F1 1/2. Class 2: 0.
    every = MacroF1(min_support=1).measure(evaluation(LABELS, PREDICTED))
    assert every == {"value": pytest.approx((2 / 3 + 1 / 2) / 3), "support": 7, "classes": 3}
    two = MacroF1(min_support=2).measure(evaluation(LABELS, PREDICTED))
    assert two is not None
    assert two["value"] == pytest.approx((2 / 3 + 1 / 2) / 2)
    assert MacroF1(min_support=3).measure(evaluation(LABELS, PREDICTED)) is None


def test_auroc() -> None:
    # For class 1 the scores are .9, .4 against .6, .1, .2: five of the six pairs are in order.
    high = np.array([0.6, 0.1, 0.2, 0.9, 0.4])
    logits = np.log(np.stack([1 - high, high], axis=1))
    shown = evaluation([0, 0, 0, 1, 1], [1, 0, 0, 1, 0], 2, logits)
    assert AUROC(min_support=2).measure(shown) == {"value": pytest.approx(5 / 6), "support": 5, "classes": 2}
    assert AUROC(min_support=3).measure(shown) is None


def test_a_class_counts_for_auroc_if_the_rest_is_large_enough_too() -> None:
    logits = np.zeros((5, 2))
    assert AUROC(min_support=2).measure(evaluation([0, 0, 0, 0, 1], [0] * 5, 2, logits)) is None


def test_calibration_error() -> None:
    # Confidence .75 (bin 12 of 15): two of four right. Confidence .55 (bin 9): right.
    sure, unsure = np.log([3.0, 1.0]), np.log([0.55, 0.45])
    shown = evaluation([0, 0, 1, 1, 0], [0] * 5, 2, [sure, sure, sure, sure, unsure])
    found = CalibrationError(min_support=5).measure(shown)
    assert found == {"value": pytest.approx((4 * 0.25 + 0.45) / 5), "support": 5}
    assert CalibrationError(min_support=6).measure(shown) is None
    certain = evaluation([0, 1], [0, 1], 2, [[1000.0, 0.0], [0.0, 1000.0]])
    assert CalibrationError(min_support=1).measure(certain) == {"value": 0.0, "support": 2}


NAMES = ["balanced_accuracy", "macro_f1", "auroc", "calibration_error"]
CONFIG: dict[str, Any] = {"rounds": 2, "participation": 2, "engine": "serial", "probes": []}


def test_named_in_a_config_they_are_recorded(tmp_path: Path) -> None:
    wanted = [{"name": "macro_f1", "min_support": 1}, *NAMES[::2], "calibration_error"]
    done = run({**CONFIG, "metrics": wanted}, federation=blobs(), out=tmp_path / "run")
    for name in NAMES:
        rounds, values = done.series(f"{name}.test.value")
        assert rounds.tolist() == [1, 2]
        assert ((values >= 0) & (values <= 1)).all()
    last = done.records[-1]
    assert last["calibration_error"]["test"]["support"] == 60
    assert scalars(last)["macro_f1/test/value"] == last["macro_f1"]["test"]["value"]
    assert Run(tmp_path / "run").final("auroc.test.value") == pytest.approx(
        np.mean([record["auroc"]["test"]["value"] for record in done.records])
    )


def test_below_the_support_they_are_absent(tmp_path: Path) -> None:
    wanted = [{"name": name, "min_support": 1000} for name in NAMES]
    done = run({**CONFIG, "metrics": wanted}, federation=blobs(), out=tmp_path / "run")
    assert not set(NAMES) & set(done.records[-1])


def test_a_support_below_one_is_refused() -> None:
    with pytest.raises(InputError, match="min_support"):
        run({**CONFIG, "metrics": [{"name": "auroc", "min_support": 0}]}, federation=blobs())

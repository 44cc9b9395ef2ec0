"""FedDecorr against numbers worked by hand."""

import math
from pathlib import Path

import pytest
import torch

from eunoe.errors import InputError
from eunoe.methods.feddecorr import FedDecorr, correlation
from tests.methods.helpers import Trial

# Each dimension has variance 2 over two samples and 4/3 over four.
ALIKE = [[1.0, 1.0], [-1.0, -1.0]]
SQUARE = [[1.0, 1.0], [1.0, -1.0], [-1.0, 1.0], [-1.0, -1.0]]


def number(rows: list[list[float]], mask: list[bool] | None = None) -> float:
    features = torch.tensor(rows, dtype=torch.float64)
    return correlation(features, None if mask is None else torch.tensor(mask)).item()


def test_correlations_by_hand() -> None:
    # The product of equal dimensions is 1/2 + 1/2 = 1, its square over two samples 1/2.
    assert number(ALIKE) == pytest.approx(0.5, rel=1e-7)
    assert number([[1.0, -3.0], [-1.0, 3.0]]) == pytest.approx(0.5, rel=1e-7)
    assert number(SQUARE) == 0
    # Of the three pairs only the first is correlated, here by 3/4 * (1 - (-3)) = 3, so 9 / 4 / 3.
    assert number([[a, a, b] for a, b in SQUARE]) == pytest.approx(0.75, rel=1e-7)


def test_padding_does_not_count() -> None:
    assert number([*ALIKE, [7.0, 2.0], [0.0, 5.0]], [True, True, False, False]) == number(ALIKE)


@pytest.mark.parametrize("rows", [[[3.0, 4.0]], [[1.0, 2.0], [1.0, 5.0]]], ids=["one sample", "a constant"])
def test_what_cannot_be_correlated_has_no_gradient(rows: list[list[float]]) -> None:
    features = torch.tensor(rows, dtype=torch.float64, requires_grad=True)
    value = correlation(features)
    value.backward()
    assert value.item() == 0
    assert features.grad is not None
    assert bool((features.grad == 0).all())


def test_it_is_added_to_the_loss(tmp_path: Path) -> None:
    training = {"steps": 1, "lr": 0.5, "batch_size": 0}
    trial = Trial(tmp_path, [(ALIKE, [0, 1])], FedDecorr(beta=0.3), training=training).rounds()
    assert trial.record["loss_before"] == pytest.approx([math.log(2) + 0.15], rel=1e-7)


def test_a_model_without_features_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="feddecorr requires a model that computes"):
        Trial(tmp_path, [(ALIKE, [0, 1])], FedDecorr(), model=torch.nn.Linear(2, 2))

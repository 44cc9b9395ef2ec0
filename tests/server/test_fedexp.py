"""FedExP against numbers worked by hand."""

from pathlib import Path

import pytest
import torch

from eunoe.methods.fednova import FedNova
from eunoe.server.fedexp import FedExP
from eunoe.server.optimizers import SGD
from tests.methods.helpers import Trial, random_parts
from tests.server.test_optimizers import merged


def test_right_angles_by_hand() -> None:
    # Four changes of squared norm 4 at right angles: their mean has 4 / 4, so eta = 4 / (2 * 1) = 2.
    changes = (2 * torch.eye(4, dtype=torch.float64)).tolist()
    assert merged(FedExP(epsilon=0), changes, [1] * 4).tolist() == [1.0] * 4
    assert merged(FedExP(epsilon=0, lr=0.5), changes, [1] * 4).tolist() == [0.5] * 4
    # With epsilon = 1/4: eta = 4 / (2 * 5/4) = 8/5.
    assert merged(FedExP(epsilon=0.25), changes, [1] * 4).tolist() == pytest.approx([0.8] * 4, rel=1e-15)


def test_norms_are_weighted_as_the_mean_is() -> None:
    # Weights 3/4 and 1/4: mean (3, -1) of squared norm 10; squared norms 16 and 16; eta is 1, by max(1, 0.8).
    assert merged(FedExP(epsilon=0), [[4.0, 0.0], [0.0, -4.0]], [3, 1]).tolist() == [3.0, -1.0]
    # Mean 4 * 3/4 - 8 * 1/4 = 1; squared norms 16 * 3/4 + 64 * 1/4 = 28; eta = 14.
    assert merged(FedExP(epsilon=0), [[4.0], [-8.0]], [3, 1]).tolist() == [14.0]


def test_it_never_goes_less_far_than_the_average() -> None:
    alike = [[1.0, 2.0], [1.0, 2.0]]
    assert merged(FedExP(), alike, [1, 1]).tolist() == merged(SGD(), alike, [1, 1]).tolist()


def test_no_change_is_no_division_by_zero() -> None:
    assert merged(FedExP(epsilon=0), [[0.0], [0.0]], [1, 1]).tolist() == [0.0]
    assert merged(FedExP(epsilon=0), [[1.0], [-1.0]], [1, 1]).tolist() == [0.0]


def test_it_goes_with_the_mask_of_signs() -> None:
    # Means (3, 1) with agreement 1 and 0.5; squared norms 13 and 9; eta is 1. The second is halved.
    assert merged(FedExP(gma=0.9), [[3.0, 2.0], [3.0, 0.0]], [1, 1]).tolist() == [3.0, 0.5]


def test_it_goes_with_other_methods(tmp_path: Path) -> None:
    parts = random_parts([7, 12, 5, 9], 3, 4)
    trial = Trial(tmp_path, parts, FedNova(), step=FedExP(), classes=4, training={"batch_size": 4, "lr": 0.2})
    assert bool(torch.isfinite(trial.rounds(3).parameters).all())

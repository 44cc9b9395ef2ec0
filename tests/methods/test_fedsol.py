"""FedSOL against numbers worked by hand."""

import math
from pathlib import Path

import pytest
import torch

from eunoe.methods.fedsol import FedSOL
from tests.methods.helpers import Normed, Trial, random_parts

ONE = [([[1.0]], [0])]
PARTS = random_parts([7, 12], 3, 4)


@pytest.mark.parametrize(("adaptive", "radius"), [(True, 0.5), (False, math.sqrt(0.5))])
def test_two_steps_by_hand(tmp_path: Path, adaptive: bool, radius: float) -> None:
    # The first step meets no divergence: from (0, 0) to (1/4, -1/4). There its gradient is in the direction
    # (1, -1), of norm 1, and both weights have moved as far, by 1/sqrt 2 of the norm of their move. With
    # rho = 1 the second step is that of (1/4 + radius, -1/4 - radius), taken from (1/4, -1/4).
    method = FedSOL(rho=1.0, adaptive=adaptive)
    trial = Trial(tmp_path, ONE, method, training={"steps": 2, "lr": 0.5, "batch_size": 0}).rounds()
    expected = 0.25 + 0.5 / (1 + math.exp(0.5 + 2 * radius))
    assert trial.parameters.tolist() == pytest.approx([expected, -expected], rel=1e-12)
    assert trial.record["loss_before"] == pytest.approx([math.log(2)], rel=1e-12)


def test_the_temperature_does_not_change_the_direction_for_two_classes(tmp_path: Path) -> None:
    training = {"steps": 3, "lr": 0.5, "batch_size": 0}
    ends = [
        Trial(tmp_path / str(tau), ONE, FedSOL(temperature=tau), training=training).rounds().parameters
        for tau in (1.0, 5.0)
    ]
    torch.testing.assert_close(ends[0], ends[1], rtol=1e-12, atol=0)


def test_statistics_are_updated_once_a_step(tmp_path: Path) -> None:
    training = {"steps": 1, "lr": 0.2, "batch_size": 4}
    torch.manual_seed(0)
    trial = Trial(tmp_path, PARTS, FedSOL(), model=Normed(), classes=4, training=training)
    update = trial.client(0)[0]
    assert update.weights.int_buffers.tolist() == [1]
    # Two passes forward and back, and one forward over the client's data for the received model.
    assert (update.forwards, update.backwards) == (2 * 4 + 7, 2 * 4)

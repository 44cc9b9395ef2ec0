"""FedACG against numbers worked by hand, and the identities of its momentum."""

import math
from pathlib import Path

import pytest
import torch

from eunoe.errors import InputError
from eunoe.methods.fedacg import FedACG
from eunoe.methods.fedavg import FedAvg
from eunoe.methods.fedprox import FedProx
from eunoe.server.optimizers import Momentum
from tests.methods.helpers import Trial, random_parts

ONE = [([[1.0]], [0])]
PARTS = random_parts([7, 12, 5, 9], 3, 4)
STEPS = {"epochs": 2, "lr": 0.2, "batch_size": 4}


def test_two_rounds_by_hand(tmp_path: Path) -> None:
    # Round 1: (0, 0) to w = m = (1/4, -1/4), and w + m/2 = (3/8, -3/8) is sent. Round 2: from there the step
    # is 1/2 (1 - p) with p = 1 / (1 + e^(-3/4)); m = 1/8 + step, w = 1/4 + m = 3/8 + step.
    training = {"steps": 1, "lr": 0.5, "batch_size": 0}
    trial = Trial(tmp_path, ONE, FedACG(momentum=0.5), training=training).rounds()
    assert trial.reported.parameters.tolist() == [0.25, -0.25]
    assert trial.parameters.tolist() == [0.375, -0.375]
    trial.rounds()
    step = 0.5 * (1 - 1 / (1 + math.exp(-0.75)))
    assert trial.server["momentum"][0].item() == pytest.approx(0.125 + step, rel=1e-14)
    assert trial.reported.parameters[0].item() == pytest.approx(0.375 + step, rel=1e-14)
    assert trial.parameters[0].item() == pytest.approx(0.375 + step + 0.5 * (0.125 + step), rel=1e-14)


def test_model_is_the_mean_of_the_clients(tmp_path: Path) -> None:
    trial = Trial(tmp_path, PARTS, FedACG(), classes=4, training=STEPS).rounds(2)
    ends = torch.stack([trial.client(client)[0].weights.parameters for client in range(4)])
    before = trial.reported.parameters
    trial.rounds()
    torch.testing.assert_close(trial.reported.parameters, ends.mean(0), rtol=0, atol=1e-14)
    moved = trial.reported.parameters - before
    torch.testing.assert_close(moved, trial.server["momentum"], rtol=0, atol=1e-14)


def test_pull_is_toward_the_model_that_was_sent(tmp_path: Path) -> None:
    ahead = Trial(tmp_path / "a", PARTS, FedACG(beta=0.5), classes=4, training=STEPS).rounds()
    prox = Trial(tmp_path / "b", PARTS, FedProx(mu=0.5), classes=4, training=STEPS).rounds()
    prox.run_state.weights = ahead.run_state.weights
    for client in range(4):
        mine, theirs = (t.client(client)[0].weights.parameters for t in (ahead, prox))
        assert torch.equal(mine, theirs)


def test_it_looks_ahead_unlike_momentum_at_the_server(tmp_path: Path) -> None:
    """The first round is that of FedAvgM, the second is not, since clients start elsewhere."""
    ahead = Trial(tmp_path / "a", PARTS, FedACG(momentum=0.9, beta=0.0), classes=4, training=STEPS).rounds()
    method, step = FedAvg(weighting="uniform"), Momentum(beta=0.9)
    behind = Trial(tmp_path / "b", PARTS, method, step=step, classes=4, training=STEPS).rounds()
    assert torch.equal(ahead.reported.parameters, behind.parameters)
    difference = ahead.rounds().reported.parameters - behind.rounds().parameters
    assert float(difference.abs().max()) > 0.01


def test_nothing_more_travels_or_is_kept(tmp_path: Path) -> None:
    trial = Trial(tmp_path, PARTS, FedACG(), classes=4, training=STEPS).rounds()
    assert trial.record["bytes_up"] == trial.record["bytes_down"] == 4 * 12 * 8
    assert not trial.states.load(0)


def test_no_other_server_optimizer(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="server_optimizer cannot be combined with"):
        Trial(tmp_path, PARTS, FedACG(), step=Momentum(), classes=4)

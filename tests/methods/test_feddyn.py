"""FedDyn: the paper's form against the one that is computed, and its identities."""

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from eunoe.errors import InputError
from eunoe.methods.fedavg import FedAvg
from eunoe.methods.feddyn import FedDyn
from eunoe.methods.fedprox import FedProx
from tests.methods.helpers import Trial, random_parts, softmax_gradient

EQUAL = random_parts([8, 8, 8, 8], 3, 4)
FULL: dict[str, Any] = {"steps": 6, "lr": 0.2, "batch_size": 0, "clip": 1000.0}


def test_two_rounds_by_hand(tmp_path: Path) -> None:
    # One of two equal clients takes part, with one step of rate 1/2 and alpha = 1/2. Round 1: (0, 0) to
    # (1/4, -1/4) with q_k = (1/4, -1/4); q = q_k / 2, so (3/8, -3/8) is sent.
    # If the same client takes part again, its gradient there is p - 1, with p = 1 / (1 + e^(-3/4)), and the
    # bend is alpha (y - w + q_k) = 1/8; if the other one does, there is no bend yet.
    part = ([[1.0]], [0])
    training = {"steps": 1, "lr": 0.5, "batch_size": 0, "clip": 100.0}
    trial = Trial(tmp_path, [part, part], FedDyn(alpha=0.5), training=training, participation=1).rounds()
    first = trial.record["clients"]
    assert trial.reported.parameters.tolist() == [0.25, -0.25]
    assert trial.parameters.tolist() == [0.375, -0.375]
    trial.rounds()
    bend = 0.125 if trial.record["clients"] == first else 0.0
    moved = 0.5 * (1 - 1 / (1 + math.exp(-0.75)) - bend)
    mean = 0.375 + moved
    assert trial.reported.parameters[0].item() == pytest.approx(mean, rel=1e-14)
    assert trial.parameters[0].item() == pytest.approx(mean + 0.125 + moved / 2, rel=1e-14)


def test_first_round_trains_as_fedprox(tmp_path: Path) -> None:
    dynamic = Trial(tmp_path / "a", EQUAL, FedDyn(alpha=0.3), classes=4, training=FULL)
    prox = Trial(tmp_path / "b", EQUAL, FedProx(mu=0.3), classes=4, training=FULL)
    for client in range(4):
        mine, theirs = (t.client(client)[0].weights.parameters for t in (dynamic, prox))
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-15)


@pytest.mark.parametrize("participants", [1, 3, 4])
def test_first_merge_overshoots_by_the_share_of_clients(participants: int, tmp_path: Path) -> None:
    trial = Trial(tmp_path, EQUAL, FedDyn(alpha=0.3), classes=4, training=FULL, participation=participants)
    changes = {client: trial.client(client)[0].weights.parameters for client in range(4)}
    trial.rounds()
    mean = torch.stack([changes[client] for client in trial.record["clients"]]).mean(0)
    torch.testing.assert_close(trial.parameters, (1 + participants / 4) * mean, rtol=0, atol=1e-15)
    torch.testing.assert_close(trial.reported.parameters, mean, rtol=0, atol=1e-15)


def test_servers_sum_is_the_mean_of_all_clients(tmp_path: Path) -> None:
    trial = Trial(tmp_path, EQUAL, FedDyn(alpha=0.3), classes=4, training=FULL, participation=2)
    for _ in range(5):
        trial.rounds()
        zero = {"moves": torch.zeros(12, dtype=torch.float64)}
        moves = [(trial.states.load(client) or zero)["moves"] for client in range(4)]
        torch.testing.assert_close(trial.server["moves"], torch.stack(moves).mean(0), rtol=0, atol=1e-14)


def test_the_papers_form_gives_the_same_iterates(tmp_path: Path) -> None:
    alpha, lr = 0.3, 0.2
    trial = Trial(tmp_path, EQUAL, FedDyn(alpha=alpha), classes=4, training=FULL, participation=3)
    w = h = torch.zeros(12, dtype=torch.float64)
    g: list[Tensor] = [torch.zeros(12, dtype=torch.float64) for _ in EQUAL]
    for _ in range(4):
        trial.rounds()
        models = []
        for k in trial.record["clients"]:
            y = w.clone()
            for _ in range(6):
                y = y - lr * (softmax_gradient(y, *EQUAL[k]) - g[k] + alpha * (y - w))
            g[k] = g[k] - alpha * (y - w)
            models.append(y)
        h = h - alpha / 4 * sum(y - w for y in models)
        mean = torch.stack(models).mean(0)
        w = mean - h / alpha
        torch.testing.assert_close(trial.parameters, w, rtol=0, atol=1e-13)
        torch.testing.assert_close(trial.reported.parameters, mean, rtol=0, atol=1e-13)


def test_alpha_is_divided_by_relative_size(tmp_path: Path) -> None:
    parts = random_parts([4, 12], 3, 4)
    trial = Trial(tmp_path / "a", parts, FedDyn(alpha=0.3), classes=4, training=FULL)
    for client, mu in ((0, 0.6), (1, 0.2)):
        prox = Trial(tmp_path / "b", parts, FedProx(mu=mu), classes=4, training=FULL)
        mine, theirs = (t.client(client)[0].weights.parameters for t in (trial, prox))
        torch.testing.assert_close(mine, theirs, rtol=0, atol=1e-15)


def test_clients_agree_where_fedavgs_do_not(tmp_path: Path) -> None:
    """On convex objectives FedDyn's model is the stationary point of the mean objective; FedAvg's is not."""
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]], dtype=torch.float64)
    parts = [(x, torch.tensor([0, 1, 0])), (2 * x, torch.tensor([1, 0, 1]))]
    training = {"steps": 15, "lr": 0.5, "batch_size": 0, "clip": 100.0}
    ends = {}
    for method in (FedDyn(alpha=0.3), FedAvg()):
        trial = Trial(tmp_path / type(method).__name__, parts, method, training=training).rounds(30)
        w = trial.reported.parameters
        ends[type(method)] = float(sum(softmax_gradient(w, *part) for part in parts).norm())
    assert ends[FedDyn] < 1e-3 < ends[FedAvg]


def test_what_it_cannot_have_and_warns_of(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="server_optimizer cannot be combined with"):
        Trial(tmp_path, EQUAL, FedDyn(), classes=4, server_optimizer="adam", training=FULL)
    with pytest.raises(InputError, match="server_optimizer cannot be combined with"):
        Trial(
            tmp_path,
            EQUAL,
            FedDyn(),
            classes=4,
            server_optimizer={"name": "sgd", "gma": 0.4},
            training=FULL,
        )
    assert "clip" in Trial(tmp_path, EQUAL, FedDyn(), classes=4).warnings[0]

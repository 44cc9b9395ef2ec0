"""SCAFFOLD: its controls by hand, and the identities that must hold whatever the data are."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from eunoe.errors import InputError
from eunoe.methods.context import ClientContext
from eunoe.methods.fedavg import FedAvg
from eunoe.methods.scaffold import Scaffold
from tests.methods.helpers import Normed, Trial, random_parts, softmax_gradient

OPPOSITE = [([[1.0]], [0]), ([[1.0]], [1])]
UNEQUAL = random_parts([7, 12, 5, 9], 3, 4)
STEPS: dict[str, Any] = {"epochs": 2, "lr": 0.2, "batch_size": 4}


def test_two_rounds_by_hand(tmp_path: Path) -> None:
    # Both clients start at (0, 0) with gradients -+(1/2, -1/2). Their mean stays at 0, their controls are
    # these gradients and c = 0, so in round 2 each step g_k - c_k + c is 0 and nobody moves.
    trial = Trial(tmp_path, OPPOSITE, Scaffold(), training={"steps": 1, "lr": 0.5, "batch_size": 0}).rounds()
    assert trial.parameters.tolist() == [0.0, 0.0]
    assert trial.server["control"].tolist() == [0.0, 0.0]
    assert trial.states.load(0)["control"].tolist() == [-0.5, 0.5]
    assert trial.states.load(1)["control"].tolist() == [0.5, -0.5]
    assert trial.client(0)[0].weights.parameters.tolist() == [0.0, 0.0]


def test_first_round_is_fedavg_with_uniform_weights(tmp_path: Path) -> None:
    controlled = Trial(tmp_path / "a", UNEQUAL, Scaffold(), classes=4, training=STEPS).rounds()
    plain = Trial(tmp_path / "b", UNEQUAL, FedAvg(weighting="uniform"), classes=4, training=STEPS).rounds()
    assert torch.equal(controlled.parameters, plain.parameters)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_option_two_is_the_mean_of_the_raw_gradients(momentum: float, tmp_path: Path) -> None:
    """Whatever the controls are; with momentum, the mean by how much each gradient moved the model."""
    seen: list[Tensor] = []

    class Watched(Scaffold):
        def correct(self, client: ClientContext, gradient: Tensor) -> Tensor:
            seen.append(gradient.clone())
            return super().correct(client, gradient)

    training = {**STEPS, "momentum": momentum, "weight_decay": 0.05}
    trial = Trial(tmp_path, UNEQUAL, Watched(), classes=4, training=training, participation=3).rounds(3)
    seen.clear()
    _, state = trial.client(1)
    steps = len(seen)
    weights = torch.tensor(
        [sum(momentum**j for j in range(steps - i)) for i in range(steps)], dtype=torch.float64
    )
    expected = (weights[:, None] * torch.stack(seen)).sum(0) / weights.sum()
    torch.testing.assert_close(state["control"], expected, rtol=0, atol=1e-12)
    if momentum:
        assert weights.sum() / steps > 2.9


def test_options_agree_after_one_full_step(tmp_path: Path) -> None:
    training = {"steps": 1, "lr": 0.2, "batch_size": 0, "weight_decay": 0.1}
    trials = [
        Trial(tmp_path / o, UNEQUAL, Scaffold(option=o), classes=4, training=training).rounds(3)
        for o in ("I", "II")
    ]
    for client in range(4):
        one, two = (trial.states.load(client)["control"] for trial in trials)
        torch.testing.assert_close(one, two, rtol=0, atol=1e-13)
    torch.testing.assert_close(trials[0].parameters, trials[1].parameters, rtol=0, atol=1e-13)


def test_option_one_is_the_gradient_at_the_received_model(tmp_path: Path) -> None:
    trial = Trial(tmp_path, UNEQUAL, Scaffold(option="I"), classes=4, training=STEPS).rounds(2)
    _, state = trial.client(2)
    expected = softmax_gradient(trial.parameters, *UNEQUAL[2])
    torch.testing.assert_close(state["control"], expected, rtol=0, atol=1e-13)


def test_finding_the_gradient_leaves_batch_norm_statistics_alone(tmp_path: Path) -> None:
    ends = []
    for method in (Scaffold(option="I"), Scaffold(option="II")):
        torch.manual_seed(0)
        trial = Trial(tmp_path / method.option, UNEQUAL, method, model=Normed(), classes=4, training=STEPS)
        ends.append(trial.client(0)[0].weights)
    assert torch.equal(ends[0].float_buffers, ends[1].float_buffers)
    assert ends[0].int_buffers.tolist() == [4]


@pytest.mark.parametrize("option", ["I", "II"])
def test_servers_control_is_the_mean_of_all_clients(option: Any, tmp_path: Path) -> None:
    trial = Trial(tmp_path, UNEQUAL, Scaffold(option=option), classes=4, training=STEPS, participation=2)
    for _ in range(5):
        trial.rounds()
        zero = {"control": torch.zeros(12, dtype=torch.float64)}
        controls = [(trial.states.load(client) or zero)["control"] for client in range(4)]
        torch.testing.assert_close(trial.server["control"], torch.stack(controls).mean(0), rtol=0, atol=1e-14)


def test_a_single_client_is_not_corrected(tmp_path: Path) -> None:
    part = UNEQUAL[:1]
    controlled = Trial(tmp_path / "a", part, Scaffold(), classes=4, training=STEPS).rounds(3)
    plain = Trial(tmp_path / "b", part, FedAvg(), classes=4, training=STEPS).rounds(3)
    torch.testing.assert_close(controlled.parameters, plain.parameters, rtol=0, atol=1e-14)


def test_what_option_two_cannot_have(tmp_path: Path) -> None:
    for training in ({"clip": 1.0}, {"optimizer": "adam"}):
        with pytest.raises(InputError, match="option = 'I'"):
            Trial(tmp_path, UNEQUAL, Scaffold(), classes=4, training=training)
        Trial(tmp_path, UNEQUAL, Scaffold(option="I"), classes=4, training=training)
    assert (
        "momentum" in Trial(tmp_path, UNEQUAL, Scaffold(), classes=4, training={"momentum": 0.9}).warnings[0]
    )


def test_traffic_is_twice_the_models(tmp_path: Path) -> None:
    record = Trial(tmp_path, UNEQUAL, Scaffold(), classes=4, training=STEPS).rounds().record
    assert record["bytes_up"] == record["bytes_down"] == 4 * 2 * 12 * 8


def test_eight_rounds_with_stale_controls_are_those_of_plain_autograd(tmp_path: Path) -> None:
    """Two of four clients a round, written anew: w, c and c_k as the paper has them."""
    steps, lr, count = 5, 0.2, len(UNEQUAL)
    training = {"steps": steps, "lr": lr, "batch_size": 0}
    trial = Trial(tmp_path, UNEQUAL, Scaffold(), classes=4, training=training, participation=2)
    start, total = trial.parameters.clone(), torch.zeros(12, dtype=torch.float64)
    controls = {client: torch.zeros_like(start) for client in range(count)}
    last: dict[int, int] = {}
    waited = 0
    for round in range(1, 9):
        cohort = trial.rounds().record["clients"]
        ends, changes = [], []
        for client in cohort:
            x, y = UNEQUAL[client]
            local = start.clone().requires_grad_()
            for _ in range(steps):
                loss = torch.nn.functional.cross_entropy(x @ local.view(4, 3).T, y)
                (gradient,) = torch.autograd.grad(loss, local)
                local = (local - lr * (gradient - controls[client] + total)).detach().requires_grad_()
            after = controls[client] - total + (start - local.detach()) / (lr * steps)
            ends.append(local.detach())
            changes.append(after - controls[client])
            controls[client] = after
            waited = max(waited, round - last.get(client, round))
            last[client] = round
        start = start + torch.stack([end - start for end in ends]).mean(0)
        total = total + torch.stack(changes).sum(0) / count
        torch.testing.assert_close(trial.parameters, start, rtol=0, atol=1e-12)
        torch.testing.assert_close(trial.server["control"], total, rtol=0, atol=1e-12)
    # Some control was from three rounds before or more.
    assert waited > 2

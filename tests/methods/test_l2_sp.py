"""Penalties toward the start model and rehearsal: one step by hand, and what a run retains."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.server.updates import Broadcast
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.running import resume, run
from eunoe.store.checkpoints import start_state
from tests.helpers import Same, begin, blobs, make_simulation
from tests.public_helpers import Rounds
from tests.small_runs import FAST, Stopped, bits, stop_after

X, Y = np.array([[1.0, 0.0], [0.0, 2.0], [3.0, 1.0], [0.0, 1.0]], np.float32), np.array([0, 1, 0, 1])


def two_clients() -> Federation:
    """Two samples each, and a reference set of the same samples."""
    options: dict[str, Any] = {"client_ids": np.array([0, 0, 1, 1]), "validation": 0.0}
    federation = Federation.from_arrays(X, Y, X, Y, **options)
    return replace(federation, references={"same": federation.data})


def simulation(method: Any, **more: Any) -> Any:
    return make_simulation(two_clients(), Same(), method=method, loss="ce", **more)


def fisher() -> float:
    """The mean of squared gradients of the one weight w = 1 of logits w x."""
    w = torch.ones(1, requires_grad=True)
    squares = []
    for x, y in zip(torch.from_numpy(X), torch.from_numpy(Y), strict=True):
        loss = torch.nn.functional.cross_entropy((w * x)[None], y[None])
        squares.append(float(torch.autograd.grad(loss, w)[0]) ** 2)
    return sum(squares) / 4


@pytest.mark.parametrize(("method", "stiffness"), [("l2_sp", 1.0), ("ewc", fisher())])
def test_the_gradient_by_hand(method: str, stiffness: float) -> None:
    sim = simulation({"name": method, "weight": 3.0})
    state = start_state(sim)
    sent = sim.method.broadcast(state.server, sim.context)
    assert sent["start"].tolist() == [1.0]
    if method == "ewc":
        assert sent["fisher"].tolist() == pytest.approx([stiffness])
    client, _ = begin(sim, 0, Broadcast(1, state.weights, sent), {})
    sim.method.begin(client)
    client.weights.fill_(1.5)
    corrected = sim.method.correct(client, torch.tensor([0.25]))
    assert corrected.tolist() == pytest.approx([0.25 + 3.0 * stiffness * 0.5])


def test_a_step_never_overshoots_the_start() -> None:
    sim = simulation({"name": "l2_sp", "weight": 1e6})
    state = start_state(sim)
    client, _ = begin(
        sim, 0, Broadcast(1, state.weights, sim.method.broadcast(state.server, sim.context)), {}
    )
    sim.method.begin(client)
    client.weights.fill_(1.5)
    step = client.lr * sim.method.correct(client, torch.zeros(1))
    assert step.tolist() == pytest.approx([0.5])


def test_rehearsal_takes_steps_on_the_reference_set(tmp_path: Path) -> None:
    training = {"steps": 1, "batch_size": 0, "lr": 0.5}
    plain, rehearsed = (
        Rounds(simulation(method, training=training), tmp_path / str(place)).go().parameters
        for place, method in enumerate(
            ["fedavg", {"name": "rehearsal", "server_steps": 1, "server_lr": 0.5, "server_batch_size": 4}]
        )
    )
    w = plain.clone().requires_grad_()
    loss = torch.nn.functional.cross_entropy(w * torch.from_numpy(X), torch.from_numpy(Y))
    (gradient,) = torch.autograd.grad(loss, w)
    torch.testing.assert_close(rehearsed, (plain - 0.5 * gradient).detach())


def test_the_mean_with_the_start_by_hand(tmp_path: Path) -> None:
    setting = {**FAST, "model": {"name": "mlp", "hidden": [4]}}
    start = start_state(assemble_of(setting)).weights.parameters
    newest = run(setting).weights().parameters
    averaging = {"averaging": {"with_start": 0.25}}
    mean = run({**setting, **averaging}, out=tmp_path / "calm")
    torch.testing.assert_close(mean.weights().parameters, 0.25 * start + 0.75 * newest)
    with pytest.raises(Stopped):
        run({**setting, **averaging}, out=tmp_path / "broken", on_round=stop_after(2))
    resume(tmp_path / "broken")
    assert bits(tmp_path / "broken") == bits(tmp_path / "calm")
    with pytest.raises(InputError, match="set one of decay"):
        run({**setting, "averaging": {"with_start": 0.25, "decay": 0.9}})


def assemble_of(setting: dict[str, Any]) -> Any:
    from eunoe.config.schema import make_config

    return assemble(make_config(setting), UserObjects())[0]


@pytest.mark.parametrize("method", ["ewc", "rehearsal"])
def test_without_a_reference_set_they_are_refused(method: str) -> None:
    with pytest.raises(InputError, match=f"{method} needs reference sets with a training part: set retain"):
        make_simulation(blobs(), method=method)


REMEDIES: dict[str, dict[str, Any]] = {
    "l2_sp": {"method": {"name": "l2_sp", "weight": 0.3}},
    "ewc": {"method": {"name": "ewc", "weight": 30.0}},
    "rehearsal": {"method": {"name": "rehearsal", "server_steps": 3}},
    "with_start": {"averaging": {"with_start": 0.5}},
}


@pytest.mark.parametrize("remedy", REMEDIES)
def test_a_resumed_run_and_processes_have_the_same_bits(tmp_path: Path, remedy: str) -> None:
    setting = {
        **FAST,
        **REMEDIES[remedy],
        "model": {"name": "mlp", "hidden": [4]},
        "retain": [{"name": "digits", "data": "digits"}],
    }
    run(setting, out=tmp_path / "calm")
    run({**setting, "engine": "process"}, out=tmp_path / "process")
    assert bits(tmp_path / "process") == bits(tmp_path / "calm")
    with pytest.raises(Stopped):
        run(setting, out=tmp_path / "broken", on_round=stop_after(2))
    resume(tmp_path / "broken")
    assert bits(tmp_path / "broken") == bits(tmp_path / "calm")


@pytest.mark.slow
@pytest.mark.parametrize("remedy", REMEDIES)
def test_ray_has_the_same_bits(tmp_path: Path, remedy: str) -> None:
    setting = {**FAST, **REMEDIES[remedy], "retain": [{"name": "digits", "data": "digits"}]}
    for engine in ("serial", "ray"):
        run({**setting, "engine": engine}, out=tmp_path / engine)
    assert bits(tmp_path / "ray") == bits(tmp_path / "serial")


def test_penalties_retain_more(tmp_path: Path) -> None:
    """A model that knows all digits is fine-tuned by clients with few of them."""
    base: dict[str, Any] = {**FAST, "model": {"name": "mlp", "hidden": [16]}}
    known = run({**base, "rounds": 25, "participation": 1.0, "partition": {"name": "iid", "clients": 5}})
    torch.save(known.model().state_dict(), tmp_path / "start.pt")
    base["model"] = {**base["model"], "start_from": str(tmp_path / "start.pt")}
    tuned = {
        **base,
        "rounds": 6,
        "participation": 1,
        "partition": {"name": "shards", "clients": 10},
        "training": {"epochs": 3, "lr": 0.1},
        "retain": [{"name": "digits", "data": "digits"}],
    }
    plain = run(tuned).read.latest("retention.share")
    for remedy, changes in REMEDIES.items():
        assert run({**tuned, **changes}).read.latest("retention.share") > plain, remedy

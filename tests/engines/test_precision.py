"""Mixed precision: autocast in training, weights in float32."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

from eunoe.data.federation import Federation
from eunoe.engines.client import gather_blocks
from eunoe.errors import InputError
from eunoe.methods.context import Batch
from eunoe.server.updates import Broadcast
from eunoe.simulation.running import run
from eunoe.store.checkpoints import start_state
from eunoe.system import machine
from tests.helpers import begin, make_simulation, train_one

SETTING: dict[str, Any] = {
    "rounds": 3,
    "participation": 4,
    "partition": {"name": "dirichlet", "clients": 8, "alpha": 0.3},
    "engine": "serial",
    "probes": [],
}


@pytest.mark.parametrize("method", ["fedavg", "fedntd", "moon"])
@pytest.mark.parametrize("engine", ["serial", "vectorized"])
def test_bf16_stays_close_to_float32(method: str, engine: str) -> None:
    model = {"name": "mlp", "head": method == "moon"}
    exact, rough = (
        run(
            SETTING, engine=engine, method=method, model=model, training={"epochs": 1, "precision": precision}
        )
        for precision in ("float32", "bf16")
    )
    one, other = exact.weights().parameters, rough.weights().parameters
    assert other.dtype == torch.float32
    assert not torch.equal(one, other)
    moved = torch.linalg.vector_norm(one - start_state(exact.simulation).weights.parameters)
    assert torch.linalg.vector_norm(one - other) < 0.1 * moved


def test_convolutions_train_in_bf16() -> None:
    x = torch.rand(60, 1, 16, 16).numpy()
    federation = Federation.from_arrays(x, torch.arange(60).numpy() % 3, clients=3, alpha=1.0)
    done = run(
        {"rounds": 2, "engine": "serial", "model": "lenet", "training": {"precision": "bf16"}},
        federation=federation,
    )
    assert torch.isfinite(done.weights().parameters).all()


def half_client(loss_scale: float, **given: Any) -> tuple[Any, Any, Batch]:
    """A simulation in fp16, which CPUs compute too; a client with this scale and its first batch."""
    simulation = make_simulation(**given)
    training = simulation.context.training.model_copy(update={"precision": "fp16"})
    simulation = replace(simulation, context=replace(simulation.context, training=training))
    simulation.model.precision = torch.float16
    simulation.model.module.train()
    broadcast = Broadcast(1, start_state(simulation).weights)
    client, batches = begin(simulation, 0, broadcast, {})
    client.loss_scale = loss_scale
    index, x, y = next(gather_blocks(client, batches[0], [len(batches[0])], simulation.federation))
    return simulation, client, Batch(x, y, index)


def half(loss_scale: float, **given: Any) -> tuple[Any, torch.Tensor]:
    """A client in fp16 after one gradient from this scale."""
    simulation, client, batch = half_client(loss_scale, **given)
    return client, client.gradient(lambda: simulation.method.loss(client, batch), batch)


def test_fp16_scales_the_loss_and_its_gradient_back() -> None:
    _, small = half(8.0)
    client, large = half(2.0**15)
    torch.testing.assert_close(small, large, rtol=0.05, atol=1e-3)
    assert client.loss_scale <= 2.0**15


def test_a_scale_that_overflows_is_halved() -> None:
    client, gradient = half(2.0**40)
    assert client.loss_scale < 2.0**40
    assert torch.isfinite(gradient).all()


def half_at(loss_scale: float, factor: float = 1.0, **given: Any) -> tuple[Any, torch.Tensor]:
    """The same by the gradient at given parameters, of the loss times a factor."""
    _, client, batch = half_client(loss_scale, **given)

    def loss(at: torch.Tensor) -> torch.Tensor:
        return client.criterion(client.forward(batch.x, at), batch.y) * factor

    return client, client.gradient_at(client.weights, loss, batch)


def test_gradients_elsewhere_are_scaled_too() -> None:
    _, usual = half(2.0**10)
    _, same = half_at(2.0**10)
    torch.testing.assert_close(same, usual)
    # Unscaled, gradients of this size are 0 in fp16.
    _, small = half_at(2.0**15, 1e-8)
    torch.testing.assert_close(small * 1e8, usual, rtol=0.05, atol=1e-2)
    assert not half_at(1.0, 1e-8)[1].any()
    client, finite = half_at(2.0**40)
    assert client.loss_scale < 2.0**40
    assert torch.isfinite(finite).all()


@pytest.mark.parametrize("gradient", [half, half_at])
def test_a_repeat_after_an_overflow_leaves_no_trace(gradient: Any) -> None:
    def after(loss_scale: float) -> tuple[Any, torch.Tensor]:
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
        client, _ = gradient(loss_scale, net=net)
        return client, client.model.float_buffers.clone()

    once, statistics = after(8.0)
    repeated, same = after(2.0**40)
    assert repeated.loss_scale < 2.0**40
    assert torch.equal(same, statistics)
    assert repeated.model.int_buffers.tolist() == [1]
    assert (repeated.forwards, repeated.backwards) == (once.forwards, once.backwards)


def test_the_update_of_a_client_in_bf16_is_in_float32() -> None:
    simulation = make_simulation(training={"precision": "bf16"})
    update, _ = train_one(simulation, 0, Broadcast(1, start_state(simulation).weights), {})
    assert update.weights.parameters.dtype == torch.float32


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"training": {"precision": "fp16"}}, "requires a GPU"),
        ({"training": {"precision": "bf16"}, "model": {"name": "mlp", "dtype": "float64"}}, "float32"),
        ({"training": {"precision": "half"}}, "precision"),
    ],
)
def test_precisions_that_do_not_fit(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        run(SETTING, **values)


@pytest.mark.parametrize("crashes", [True, False])
def test_bf16_that_ends_the_process_is_refused(monkeypatch: pytest.MonkeyPatch, crashes: bool) -> None:
    tried = "import os, signal; os.kill(os.getpid(), signal.SIGILL)" if crashes else "pass"
    monkeypatch.setattr(machine, "_flags", lambda: {"amx_bf16"})
    monkeypatch.setattr(machine, "_TRY_BF16", tried)
    machine.bf16_crashes.cache_clear()
    try:
        assert machine.bf16_crashes() == crashes
        if crashes:
            with pytest.raises(InputError, match=r"announces AMX units .* set ONEDNN_MAX_CPU_ISA="):
                run(SETTING, training={"precision": "bf16"})
    finally:
        machine.bf16_crashes.cache_clear()

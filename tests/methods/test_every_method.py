"""What is required of every method, with cross-entropy and with the re-weighted softmax."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from eunoe.config import registry
from eunoe.core.flat_model import Weights
from eunoe.data.federation import Federation
from eunoe.methods.base import Method, Neutral
from eunoe.server.optimizers import ServerOptimizer
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run

METHODS = registry.names("method")
# What the default of an option would make long.
SMALL: dict[str, dict[str, Any]] = {
    "feddf": {"steps": 20, "every": 10},
    "fedreg": {"ascent_steps": 3, "ps_eta": 0.4},
}
BROKEN = 2  # The client whose data are not numbers.


class Normed(nn.Module):
    """A small network with batch normalization."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(shape[0], 8), nn.BatchNorm1d(8), nn.ReLU())
        self.classifier = nn.Linear(8, classes)

    def features(self, x: Tensor) -> Tensor:
        return self.body(x)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(self.features(x))


@cache
def federation(broken: bool = False) -> Federation:
    """Five clients of unequal sizes, each without one or two of the four classes, and a public set."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, 240)
    x = rng.normal(size=(240, 6)).astype(np.float32) + 2 * np.eye(6, dtype=np.float32)[y]
    client = (y + rng.integers(0, 3, 240)) % 5
    whole = Federation.from_arrays(x, y, client_ids=client, validation=0.1, public=0.15)
    if broken:
        whole.data.train.x[torch.from_numpy(whole.rows(BROKEN))] = float("nan")
    return whole


def small_run(out: Path, method: Any, loss: str = "ce", broken: bool = False, **changes: Any) -> Run:
    values: dict[str, Any] = {
        "rounds": 3,
        "participation": 3,
        "model": {"name": "mlp", "hidden": [8]},
        "training": {"steps": 3, "batch_size": 8, "lr": 0.1},
        "engine": {"name": "serial"},
        "evaluation": {"every": 0, "last": 3},
        **changes,
    }
    section = {"name": method} if isinstance(method, str) else method
    section = {**SMALL.get(section["name"], {}), **section}
    # Without clients there is no loss to choose.
    loss = loss if trains_clients(section["name"]) else "ce"
    return run(federation=federation(broken), method=section, loss=loss, out=out, **values)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Run]:
    """Runs that nothing disturbs, made once for all tests that compare with them."""

    @cache
    def made(method: str, loss: str, weighting: str | None = None, rounds: int = 3) -> Run:
        section = {"name": method, **({"weighting": weighting} if weighting else {})}
        return small_run(tmp_path_factory.mktemp("whole") / "run", section, loss, rounds=rounds)

    return made


def trains_clients(method: str) -> bool:
    return getattr(registry.find("method", method), "trains_clients", True)


def aggregates(method: str) -> bool:
    return getattr(registry.find("method", method), "aggregates", True)


def models(run: Run) -> list[Weights]:
    """The model of a run, or that of each client where there is no global one."""
    if run.simulation.method.aggregates:
        return [run.weights()]
    trained = sorted({client for record in run.records for client in record["clients"]})
    return [run.weights(which, client) for client in trained for which in ("last", "best")]


def lines(run: Run) -> str:
    return (run.folder / "metrics.jsonl").read_text()


def same(one: Run, other: Run, tolerance: float = 0.0) -> bool:
    return all(
        torch.allclose(a.parameters, b.parameters, rtol=0, atol=tolerance)
        and torch.allclose(a.float_buffers, b.float_buffers, rtol=0, atol=tolerance)
        for a, b in zip(models(one), models(other), strict=True)
    )


pytestmark = pytest.mark.parametrize("loss", ["ce", "wsm"])
every_method = pytest.mark.parametrize("method", METHODS)
neutral_methods = pytest.mark.parametrize(
    "method",
    [name for name in METHODS if getattr(registry.find("method", name), "neutral", None) is not None],
)
client_methods = pytest.mark.parametrize("method", [name for name in METHODS if trains_clients(name)])


@every_method
def test_it_trains(method: str, loss: str, tmp_path: Path) -> None:
    training = {"steps": 5, "batch_size": 8, "lr": 0.1}
    trained = small_run(tmp_path / "run", method, loss, rounds=10, participation=5, training=training)
    place = "test" if aggregates(method) else "validation"
    assert trained.records[-1][place]["accuracy"] > 0.5  # Chance is 0.25.
    assert (trained.records[-1]["bytes_up"] > 0) == (trains_clients(method) and aggregates(method))


@neutral_methods
def test_neutral_setting_is_fedavg(method: str, loss: str, tmp_path: Path, whole: Callable[..., Run]) -> None:
    thing = registry.find("method", method)
    assert isinstance(thing, type)
    assert issubclass(thing, Method | ServerOptimizer)
    neutral = thing.neutral
    if not isinstance(neutral, Neutral):
        neutral = Neutral(neutral)
    weighting = thing(**neutral.options).weighting if issubclass(thing, Method) else "samples"
    rounds = neutral.rounds or 3
    mine = small_run(tmp_path / "mine", {"name": method, **neutral.options}, loss, rounds=rounds)
    plain = whole("fedavg", loss, weighting, rounds)
    assert same(mine, plain, neutral.tolerance)
    if not neutral.tolerance:
        assert mine.records[-1]["loss_before"] == plain.records[-1]["loss_before"]


@every_method
def test_processes_give_the_same_bits(
    method: str, loss: str, tmp_path: Path, whole: Callable[..., Run]
) -> None:
    process = small_run(tmp_path / "process", method, loss, engine={"name": "process", "workers": 2})
    assert same(whole(method, loss), process)
    assert lines(whole(method, loss)) == lines(process)


@every_method
def test_stopped_and_resumed_is_undisturbed(
    method: str, loss: str, tmp_path: Path, whole: Callable[..., Run]
) -> None:
    small_run(tmp_path / "parts", method, loss, rounds=1)
    parts = resume(tmp_path / "parts", {"rounds": 3}, federation=federation())
    assert same(whole(method, loss), parts)
    assert lines(whole(method, loss)) == lines(parts)


@client_methods
def test_client_that_is_not_finite_is_dropped(method: str, loss: str, tmp_path: Path) -> None:
    finished = small_run(tmp_path / "run", method, loss, broken=True, participation=5)
    for record in finished.records:
        assert [dropped["client"] for dropped in record["dropped"]] == [BROKEN]
        assert "not finite" in record["dropped"][0]["reason"]
        assert BROKEN not in record["clients"]
    assert all(bool(torch.isfinite(model.parameters).all()) for model in models(finished))
    assert not list((finished.folder / "states").glob(f"*/{BROKEN}-*"))


@every_method
def test_batch_normalization_stays_sane(method: str, loss: str, tmp_path: Path) -> None:
    name = f"{__name__}:Normed"
    finished = small_run(tmp_path / "run", method, loss, model={"name": name})
    model = finished.model(client=None if aggregates(method) else finished.records[0]["clients"][0])
    norm = model.get_submodule("body.1")
    assert bool((norm.running_var > 0).all())
    assert float((norm.running_var - 1).abs().max()) > 0.01
    assert int(norm.num_batches_tracked) >= (4 if aggregates(method) else 3)

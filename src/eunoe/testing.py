"""Checks that every method must pass, built in or your own: `check_method(Mine)`."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eunoe.config import registry
from eunoe.core.flat_model import Weights
from eunoe.data.federation import Federation
from eunoe.methods.base import Method, Neutral
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run

# The client whose data are not numbers in the check of such clients.
BROKEN = 2
# Largest difference of a parameter between the serial and the vectorized engine.
_ROUNDING = 1e-4


def check_method(method: Any, losses: Sequence[str] = ("ce", "wsm")) -> None:
    """Check a method (a class, an object or a name) as Eunoe's own are tested; takes about a minute.

    It must learn, give the same bits in processes and when resumed, the same numbers on the vectorized
    engine, leave out a client whose data are not finite, keep batch normalization intact and, if it has a
    `neutral` setting, equal FedAvg there. The first requirement that fails raises AssertionError.
    """
    for loss in losses:
        with TemporaryDirectory() as folder:
            checked = CheckedMethod(method, Path(folder), loss)
            for check in checked.checks():
                check()


class CheckedMethod:
    """A method, small runs of it in a folder, and what is required of them."""

    def __init__(self, method: Any, folder: Path, loss: str = "ce") -> None:
        method = method() if isinstance(method, type) else method
        self.method = {"name": method} if isinstance(method, str) else method
        named = isinstance(self.method, Mapping)
        self.kind: Any = registry.find("method", self.method["name"]) if named else type(method)
        self.own = {} if named else {"method": method}
        self.trains_clients = getattr(self.kind, "trains_clients", True)
        self.aggregates = getattr(self.kind, "aggregates", True)
        # Without clients there is no loss to choose.
        self.folder, self.loss = folder, loss if self.trains_clients else "ce"

    def checks(self) -> list[Callable[[], None]]:
        """Return the checks that apply to the method."""
        neutral = [] if getattr(self.kind, "neutral", None) is None else [self.equals_fedavg_if_neutral]
        clients = [self.drops_client_that_is_not_finite] if self.trains_clients else []
        engines = [self.same_bits_in_processes, self.same_numbers_vectorized, self.same_bits_if_resumed]
        return [self.learns, *neutral, *engines, *clients, self.keeps_batch_normalization]

    def run(self, name: str, method: Any = None, broken: bool = False, **changes: Any) -> Run:
        values: dict[str, Any] = {
            "rounds": 3,
            "participation": 3,
            "model": {"name": "mlp", "hidden": [8]},
            "training": {"steps": 3, "batch_size": 8, "lr": 0.1},
            "engine": {"name": "serial"},
            "evaluation": {"every": 0, "last": 3},
            "loss": self.loss,
            **changes,
        }
        method = self.method if method is None else method
        out = self.folder / name
        return run(federation=_federation(broken), method=method, out=out, **values)

    @cached_property
    def serial(self) -> Run:
        return self.run("serial")

    def learns(self) -> None:
        training = {"steps": 5, "batch_size": 8, "lr": 0.1}
        last = self.run("learns", rounds=10, participation=5, training=training).records[-1]
        accuracy = last["test" if self.aggregates else "validation"]["accuracy"]
        _require(accuracy > 0.5, f"accuracy is {accuracy:.2f} after 10 rounds, and chance is 0.25")
        sends = self.trains_clients and self.aggregates
        _require((last["bytes_up"] > 0) == sends, f"clients sent {last['bytes_up']} bytes")

    def equals_fedavg_if_neutral(self) -> None:
        neutral = self.kind.neutral
        neutral = neutral if isinstance(neutral, Neutral) else Neutral(neutral)
        alone = self.kind(**neutral.options)
        method = alone if self.own else {**self.method, **neutral.options}
        weighting = alone.weighting if isinstance(alone, Method) else "samples"
        rounds = neutral.rounds or 3
        mine = self.run("neutral", method, rounds=rounds)
        plain = self.run("fedavg", {"name": "fedavg", "weighting": weighting}, rounds=rounds)
        _require_same(mine, plain, "its neutral setting and FedAvg", neutral.tolerance)
        if not neutral.tolerance:
            losses = [done.records[-1]["loss_before"] for done in (mine, plain)]
            _require(losses[0] == losses[1], "its neutral setting has other losses than FedAvg")

    def same_bits_in_processes(self) -> None:
        process = self.run("process", engine={"name": "process", "workers": 2})
        _require_same(self.serial, process, "the engines serial and process")

    def same_numbers_vectorized(self) -> None:
        # Whole epochs: the last batch of a client is smaller, so batches are padded and masked.
        training = {"epochs": 1, "batch_size": 16, "lr": 0.1}
        names = ("serial", "vectorized")
        one, other = (self.run(f"{n}-epoch", engine={"name": n}, training=training) for n in names)
        what = "the engines serial and vectorized (is batch.mask used?)"
        _require_same(one, other, what, _ROUNDING)

    def same_bits_if_resumed(self) -> None:
        self.run("resumed", rounds=1)
        resumed = resume(self.folder / "resumed", {"rounds": 3}, federation=_federation(), **self.own)
        _require_same(self.serial, resumed, "a run and its resumed copy (is all state returned?)")

    def drops_client_that_is_not_finite(self) -> None:
        done = self.run("broken", broken=True, participation=5)
        for record in done.records:
            dropped = [client["client"] for client in record["dropped"]]
            _require(dropped == [BROKEN], f"clients {dropped} were dropped, not {BROKEN}, whose data are NaN")
            _require("not finite" in record["dropped"][0]["reason"], "it was dropped for another reason")
        finite = all(bool(torch.isfinite(model.parameters).all()) for model in models(done))
        _require(finite, "a client whose data are NaN spoiled the model")
        _require(not list((done.folder / "states").glob(f"*/{BROKEN}-*")), "its state was kept")

    def keeps_batch_normalization(self) -> None:
        done = self.run("normed", model={"name": f"{__name__}:Normed"})
        model = done.model(client=None if self.aggregates else done.records[0]["clients"][0])
        norm: Any = model.get_submodule("body.1")
        _require(bool((norm.running_var > 0).all()), "a running variance is not positive")
        _require(float((norm.running_var - 1).abs().max()) > 0.01, "running variances did not change")
        steps, least = int(norm.num_batches_tracked), 4 if self.aggregates else 3
        _require(steps >= least, f"batch normalization counted {steps} batches, not {least} or more")


def models(run: Run) -> list[Weights]:
    """Return the model of a run, or that of each client where there is no global one."""
    if run.simulation.method.aggregates:
        return [run.weights()]
    trained = sorted({client for record in run.records for client in record["clients"]})
    return [run.weights(which, client) for client in trained for which in ("last", "best")]


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
def _federation(broken: bool = False) -> Federation:
    """Return five clients of unequal sizes, each without one or two of the four classes, and a public set."""
    rng = np.random.default_rng(3)
    y = rng.integers(0, 4, 240)
    x = rng.normal(size=(240, 6)).astype(np.float32) + 2 * np.eye(6, dtype=np.float32)[y]
    client = (y + rng.integers(0, 3, 240)) % 5
    whole = Federation.from_arrays(x, y, client_ids=client, validation=0.1, public=0.15)
    known = Federation.from_arrays(x[:60], y[:60], clients=1, partition="iid").data
    whole = replace(whole, references={"known": known})
    if broken:
        whole.data.train.tensor[torch.from_numpy(whole.rows(BROKEN))] = float("nan")
    return whole


def _require(condition: bool, message: str) -> None:
    if not condition:
        raise AssertionError(message)


def _require_same(one: Run, other: Run, what: str, tolerance: float = 0.0) -> None:
    """Require equal models and, without a tolerance and for the same method, equal records."""
    pairs = [
        (getattr(a, vector), getattr(b, vector))
        for a, b in zip(models(one), models(other), strict=True)
        for vector in ("parameters", "float_buffers")
    ]
    difference = max(float((a - b).abs().max()) for a, b in pairs if len(a))
    _require(difference <= tolerance, f"{what} differ by up to {difference:.2g} in a parameter")
    if not tolerance and "FedAvg" not in what:
        lines = [(done.folder / "metrics.jsonl").read_text() for done in (one, other)]
        _require(lines[0] == lines[1], f"{what} have different metrics")

"""Engines by name: those that are built in, and the user's own."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from pydantic import Field

from eunoe.config import registry
from eunoe.config.schema import make_config
from eunoe.core.flat_model import Weights
from eunoe.engines import Broadcast, ClientStates, Serial, Simulation, Update
from eunoe.engines.base import OwnModels, make_engine
from eunoe.engines.process import Process
from eunoe.engines.vectorized.engine import Vectorized
from eunoe.errors import InputError
from eunoe.metrics.base import Predictions, Rows
from eunoe.simulation.running import resume, run
from tests.faults import results
from tests.helpers import blobs, make_simulation

trained: list[tuple[int, int]] = []


class Backwards(Serial):
    """Trains the last client first."""

    def __init__(
        self,
        simulation: Simulation,
        states: ClientStates,
        repeats: Annotated[int, Field(ge=1, description="How often each client trains.")] = 1,
    ) -> None:
        self.repeats = repeats
        super().__init__(simulation, states)

    def train(self, simulation: Simulation, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        updates = {}
        for client in list(clients)[::-1] * self.repeats:
            trained.append((broadcast.round, client))
            (updates[client],) = super().train(simulation, [client], broadcast)
        yield from (updates[client] for client in clients)


class NoEngine:
    """Does not derive from Engine."""


@pytest.fixture
def made(tmp_path: Path) -> Any:
    simulation = make_simulation()
    return lambda name, **options: make_engine(
        make_config({"engine": {"name": name, **options}}), simulation, ClientStates(tmp_path)
    )


def test_engines_are_made_by_name_with_their_own_options(made: Any) -> None:
    assert registry.names("engine") == ["process", "ray", "serial", "vectorized"]
    assert type(made("serial")) is Serial
    assert type(made("serial", workers=None)) is Serial
    process = made("process", workers=3)
    assert type(process) is Process
    assert process.workers.count == 3
    vectorized = made("vectorized", cohort=5)
    assert type(vectorized) is Vectorized
    assert vectorized.cohort == 5
    assert made(f"{__name__}:Backwards", repeats=2).repeats == 2


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("proces", {}, "no engine is called 'proces'; did you mean 'process'?"),
        ("serial", {"workers": 2}, "engine 'serial' has no option 'workers'"),
        ("process", {"cohort": 2}, "engine 'process' has no option 'cohort'"),
        ("process", {"workers": 0}, "engine 'process': workers: input should be greater than or equal to 1"),
        ("process", {"states": "x"}, "engine 'process' has no option 'states'"),
        ("vectorized", {"cohort": "many"}, "engine 'vectorized': cohort: input should be a valid integer"),
        (f"{__name__}:Backwards", {"repeats": 0}, "repeats: input should be greater"),
        (f"{__name__}:NoEngine", {}, "must derive from eunoe.engines.Engine"),
    ],
)
def test_what_an_engine_does_not_take_is_refused(
    made: Any, name: str, options: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError) as refused:
        made(name, **options)
    assert says in str(refused.value)


def test_a_run_on_an_engine_of_the_users_own_gives_the_same_and_is_resumed(tmp_path: Path) -> None:
    def go(folder: str, rounds: int, **engine: Any) -> Any:
        return run(
            {"participation": 3, "rounds": rounds, "engine": engine, "model": "mlp", "method": "scaffold"},
            federation=blobs(clients=5),
            out=tmp_path / folder,
        )

    serial = go("serial", 2, name="serial")
    trained.clear()
    go("own", 1, name=f"{__name__}:Backwards", repeats=2)
    own = resume(tmp_path / "own", {"rounds": 2}, federation=blobs(clients=5))
    clients = [record["clients"] for record in serial.records]
    assert trained == [(r, c) for r, chosen in enumerate(clients, 1) for c in chosen[::-1] * 2]
    assert results(own) == results(serial)
    assert own.config.engine.options == {"repeats": 2}


# Each client's samples by its own model.


def model(number: float) -> Weights:
    return Weights(torch.tensor([number]), torch.empty(0), torch.empty(0, dtype=torch.int64))


class Echo(Serial):
    """Predicts ten times the model's number plus the row."""

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        return [
            Predictions(
                10 * int(each.parameters) + where.rows,
                where.rows / 10,
                np.array([float(len(where.rows)), float(each.parameters)]),
                np.stack([where.rows, where.rows], axis=1).astype(np.float64) if where.logits else None,
            )
            for each in models
        ]


def echo(folder: Path, numbers: Sequence[int]) -> OwnModels:
    """Return the evaluator of clients whose models are their numbers."""
    states = ClientStates(folder)
    for client in numbers:
        best = {f"best {name}": vector for name, vector in model(float(client)).vectors().items()}
        states.save(client, 1, best)
        states.accept(client, 1)
    return OwnModels(Echo(make_simulation(method="local"), states))


def test_every_sample_is_predicted_by_its_owner(tmp_path: Path) -> None:
    rows = Rows("clients", np.array([7, 8, 9, 6]), np.array([5, 3, 4, 5]), logits=True)
    (predictions,) = echo(tmp_path, [3, 5]).evaluate([model(1.0)], rows)
    # Client 4 has not trained, and so has the model that all start from.
    assert predictions.predicted.tolist() == [57, 38, 19, 56]
    assert predictions.losses.tolist() == [0.7, 0.8, 0.9, 0.6]
    assert predictions.probability.tolist() == [4.0, 9.0]
    assert predictions.logits is not None
    assert predictions.logits[:, 0].tolist() == [7, 8, 9, 6]


def test_samples_of_nobody_cannot_be_predicted(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="this method has no global model"):
        echo(tmp_path, []).evaluate([model(1.0)], Rows("test", np.arange(2)))

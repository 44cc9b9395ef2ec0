"""Summers: a round whose updates are added up on the cluster has the bits of the serial engine."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from eunoe.engines.client_states import ClientStates
from eunoe.engines.ray.engine import Ray
from eunoe.engines.ray.summing import Summing
from eunoe.server.aggregator import Aggregator
from eunoe.server.updates import Broadcast
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from tests.faults import EXCLUDING, results
from tests.helpers import blobs, make_aggregator, make_simulation

ray = pytest.importorskip("ray")


@pytest.fixture(scope="module", autouse=True)
def _one_ray() -> Iterator[None]:
    ray.shutdown()
    ray.init("local", num_cpus=2, include_dashboard=False, logging_level="ERROR")
    yield
    ray.shutdown()


def run_with(engine: dict[str, Any], out: Path, **values: Any) -> Run:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(5, 70), nn.BatchNorm1d(70), nn.ReLU(), nn.Linear(70, 3))
    federation = blobs(clients=12, public=0.1)
    base = {"participation": 9, "rounds": 3, "probes": []}
    return run({**base, "engine": engine, **values}, federation=federation, model=net, out=out)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"method": "fednova"},
        {"method": "scaffold", "attack": {"name": "sign_flip", "share": 0.3}},
        # These need every model, every change or the models of a round; the driver adds.
        {"method": {"name": "flashback", "server_epochs": 1}},
        {"aggregation": "median", "probes": [{"metric": "drift", "every": 1}]},
    ],
)
def test_bits_are_those_of_the_serial_engine(tmp_path: Path, values: dict[str, Any]) -> None:
    serial = run_with({"name": "serial"}, tmp_path / "serial", **values)
    summed = run_with({"name": "ray", "summers": 2}, tmp_path / "ray", **values)
    assert results(serial) == results(summed)


def test_updates_that_cannot_be_used_are_dropped_and_a_lost_summer_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = run_with({"name": "serial"}, tmp_path / "calm").records[1]["clients"]
    faults = {f"2/{client}": kind for client, kind in zip(chosen, EXCLUDING, strict=False)}
    method = {"name": "tests.faults:Faulty", "faults": faults, "marks": str(tmp_path)}
    serial = run_with({"name": "serial"}, tmp_path / "serial", method=method)
    decide, whole, lost = Aggregator.decide, Summing._round, list[Any]()
    summing: list[Summing] = []

    def noted(self: Summing, *given: Any) -> Any:
        summing.append(self)
        return whole(self, *given)

    def decide_and_lose(self: Aggregator, examined: Any) -> Any:
        if len(summing) == 2 and not lost:
            lost.append(summing[-1]._summers[1])
            ray.kill(lost[0])
        return decide(self, examined)

    monkeypatch.setattr(Summing, "_round", noted)
    monkeypatch.setattr(Aggregator, "decide", decide_and_lose)
    summed = run_with({"name": "ray", "summers": 2}, tmp_path / "ray", method=method)
    # Three rounds, one of them twice.
    assert len(summing) == 4
    assert [one["client"] for one in summed.records[1]["dropped"]] == chosen[: len(EXCLUDING)]
    assert results(serial) == results(summed)


def test_the_driver_gets_a_sum_in_place_of_a_model_per_client(tmp_path: Path) -> None:
    net = nn.Sequential(nn.Linear(5, 20_000), nn.ReLU(), nn.Linear(20_000, 3))
    simulation = make_simulation(blobs(clients=12), net)
    broadcast = Broadcast(1, simulation.model.weights.copy())
    model = broadcast.weights.parameters.numel() * 4
    received = {}
    for summers in (None, 2):
        with Ray(simulation, ClientStates(tmp_path), summers=summers) as engine:
            aggregator = make_aggregator(simulation.method, broadcast.weights, simulation.in_round(1).context)
            found = list(
                engine.aggregate(simulation.in_round(1), range(12), broadcast, aggregator, vectors=False)
            )
            assert [one.update.client for one in found] == list(range(12))
            received[summers] = engine.transfers.take().bytes["to the driver"]
    # A sum is in float64.
    assert received[None] > 12 * model
    assert 2 * model <= received[2] < 2.1 * model

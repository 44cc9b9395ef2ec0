"""Devices: "cpu:0" is the CPU under another name, to which everything is copied as to an accelerator."""

from typing import Any

import numpy as np
import pytest
import torch

from eunoe.core.flat_model import Weights
from eunoe.engines import devices
from eunoe.engines.client_states import ClientStates
from eunoe.engines.devices import WorkerDevice, expand
from eunoe.engines.workers import Evaluation, Workers
from eunoe.errors import InputError
from eunoe.metrics.base import Rows
from eunoe.server.updates import Broadcast
from eunoe.simulation.running import run
from eunoe.store.checkpoints import start_state
from tests.helpers import blobs, make_simulation, train_one

SETTING: dict[str, Any] = {
    "rounds": 3,
    "participation": 4,
    "partition": {"name": "dirichlet", "clients": 8, "alpha": 0.3},
    "model": {"name": "mlp", "hidden": [4]},
    "training": {"epochs": 1},
    "public": {"share": 0.1},
    "probes": [],
}


def test_patterns_name_the_devices_that_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 3)
    assert expand("cuda:*") == ["cuda:0", "cuda:1", "cuda:2"]
    assert expand("cuda") == ["cuda:0"]
    assert expand("cuda:2, cpu") == ["cuda:2", "cpu"]
    with pytest.raises(InputError, match="'cuda:3' does not exist; there are cuda:0 to cuda:2"):
        expand("cuda:3")


@pytest.mark.parametrize(("pattern", "words"), [("cuda:*", "no CUDA device"), ("tpu:0", "cannot be used")])
def test_devices_that_are_not_there_are_refused(pattern: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        run(SETTING, engine={"name": "process", "devices": pattern})


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ({"name": "process", "per_device": 2}, "requires engine.devices"),
        ({"name": "process", "devices": "cpu", "workers": 2}, "set engine.per_device"),
        ({"name": "ray", "per_device": 2}, "requires engine.devices"),
    ],
)
def test_options_that_do_not_go_together(engine: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        run(SETTING, engine=engine)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"method": "scaffold", "loss": "wsm"},
        {"shift": {"kind": "contrast", "strength": 1.0}, "stream": "label_drift", "replay": {"memory": 9}},
        {"method": {"name": "flashback", "server_epochs": 1}},
    ],
)
def test_workers_on_devices_have_the_bits_of_the_serial_engine(values: dict[str, Any]) -> None:
    devices = {"name": "process", "devices": "cpu:0,cpu:1", "per_device": 2}
    serial, placed = (run(SETTING, engine=engine, **values) for engine in ("serial", devices))
    moved = [timing["moved"]["broadcast"]["copies"] for timing in placed.read.timings]
    # Four workers at most, each once a round.
    assert all(1 <= copies <= 4 for copies in moved)
    assert not any("moved" in timing for timing in serial.read.timings)
    assert torch.equal(serial.weights().parameters, placed.weights().parameters)
    assert serial.records[-1]["test"] == placed.records[-1]["test"]


def test_a_worker_that_dies_is_replaced_on_its_device(tmp_path: Any) -> None:
    simulation = make_simulation()
    workers = Workers(simulation, ClientStates(tmp_path), ["cpu:0", "cpu:1", "cpu:0"])
    tasks, models = [Evaluation(Rows("test", np.arange(4)))] * 3, [simulation.model.weights.copy()] * 3
    try:
        before = list(workers.in_order(tasks, models))
        lost = workers._workers[1]
        lost.process.kill()
        lost.process.join()
        after = list(workers.in_order(tasks, models))
        assert lost not in workers._workers
        assert [each.losses.tolist() for each in after] == [each.losses.tolist() for each in before]
        assert sorted(worker.device for worker in workers._workers) == ["cpu:0", "cpu:0", "cpu:1"]
    finally:
        workers.close()


def test_model_and_samples_are_copied_once_and_weights_once_a_round() -> None:
    simulation = make_simulation(blobs(clients=5))
    place, state = WorkerDevice(simulation, "cpu:0"), start_state(simulation)
    for round in (1, 2, 3):
        broadcast = Broadcast(round, state.weights)
        for client in range(5):
            train_one(place.simulation, client, place.received(broadcast), {})
    assert place.transfers.copies == {"model": 1, "samples": 1, "broadcast": 3}
    size = sum(v.numel() * v.itemsize for v in state.weights.vectors().values())
    assert place.transfers.bytes["broadcast"] == 3 * size
    data = simulation.federation.data
    stored = (data.train.tensor.numel() + data.test.tensor.numel()) * 4
    assert place.transfers.bytes["samples"] == stored


def test_samples_stay_where_there_is_no_room_for_every_workers_copy() -> None:
    simulation = make_simulation()
    data = simulation.federation.data
    size = (data.train.tensor.numel() + data.test.tensor.numel()) * 4
    for sharing, room, resident in ((1, 2 * size, True), (2, 2 * size, False), (2, 4 * size, True)):
        place = WorkerDevice(simulation, "cpu:0", sharing, free=lambda _, room=room: room)
        assert ("samples" in place.transfers.copies) == resident
        update, _ = train_one(place.simulation, 0, Broadcast(1, start_state(simulation).weights), {})
        plain, _ = train_one(simulation, 0, Broadcast(1, start_state(simulation).weights), {})
        assert torch.equal(update.weights.parameters, plain.weights.parameters)


def test_the_cpu_itself_needs_no_copies() -> None:
    simulation = make_simulation()
    place, broadcast = WorkerDevice(simulation, "cpu"), Broadcast(1, start_state(simulation).weights)
    assert place.simulation is simulation
    assert place.received(broadcast) is broadcast
    assert not place.transfers.copies


MODEL = Weights(torch.zeros(250), torch.zeros(0), torch.zeros(0, dtype=torch.int64))


def test_as_many_workers_as_the_free_memory_holds_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    # Each needs 1,000 bytes and three models of 1,000.
    monkeypatch.setattr(devices, "memory", lambda: (10**9, 12_000))
    devices.check_memory(3, MODEL, 1_000)
    with pytest.raises(InputError, match=r"set engine\.workers to 3 or less"):
        devices.check_memory(4, MODEL, 1_000)


def test_nothing_is_refused_where_the_free_memory_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "memory", lambda: (0, 0))
    devices.check_memory(1_000_000, MODEL, 1_000)

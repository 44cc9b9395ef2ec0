"""The Ray engine: the bits of the serial one, on a cluster that loses workers and nodes."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from eunoe.config import registry
from eunoe.engines.client_states import ClientStates
from eunoe.engines.devices import Transfers
from eunoe.engines.ray.actor import pack
from eunoe.engines.ray.engine import Ray
from eunoe.errors import InputError
from eunoe.server.updates import Broadcast
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from tests.faults import EXCLUDING, OwnError, children, results
from tests.helpers import Net, blobs, make_simulation, train
from tests.other_tasks import federation as other_task
from tests.small_runs import REFERENCES, bits
from tests.waiting import PATIENCE, until

ray = pytest.importorskip("ray")


def run_with(
    engine: str,
    out: Path,
    rounds: int = 2,
    clients: int = 8,
    address: str | None = None,
    workers: int | None = None,
    on_round: Any = None,
    **values: Any,
) -> Run:
    torch.manual_seed(0)
    return run(
        {
            "participation": clients - 2,
            "rounds": rounds,
            "engine": {"name": engine, "address": address, "workers": workers if engine == "ray" else None},
            **values,
        },
        federation=blobs(clients=clients, public=0.1),
        model=Net(),
        out=out,
        on_round=on_round,
    )


@pytest.fixture(scope="module", autouse=True)
def _no_ray_is_left() -> Iterator[None]:
    yield
    ray.shutdown()


@pytest.fixture
def one_node() -> None:
    """A Ray that is there before the engine."""
    if not ray.is_initialized():
        ray.init("local", num_cpus=2, include_dashboard=False, logging_level="ERROR")


@pytest.fixture
def no_ray() -> None:
    """No Ray to join."""
    ray.shutdown()


def test_it_joins_the_ray_that_is_there_and_gives_the_bits_of_the_serial_engine(
    one_node: None, tmp_path: Path
) -> None:
    # Hundreds of small clients go in groups.
    for loss, clients in (("ce", 8), ("wsm", 200)):
        pair = [run_with(e, tmp_path / e / loss, loss=loss, clients=clients) for e in ("serial", "ray")]
        assert results(pair[0]) == results(pair[1])
    assert ray.is_initialized()


def test_through_killed_workers_and_refused_updates_no_bit_changes(one_node: None, tmp_path: Path) -> None:
    first, second = (record["clients"] for record in run_with("serial", tmp_path / "calm").records)
    refused = {f"2/{client}": kind for client, kind in zip(second, EXCLUDING, strict=False)}
    killed = {f"1/{client}": "kill" for client in first[::3]}
    method = {"name": "tests.faults:Faulty", "marks": str(tmp_path)}
    calm = run_with("serial", tmp_path / "serial", method={**method, "faults": refused})
    found = run_with("ray", tmp_path / "ray", method={**method, "faults": {**refused, **killed}})
    assert len(list(tmp_path.glob("1-*"))) == len(killed)
    assert [dropped["client"] for dropped in found.records[1]["dropped"]] == second[:3]
    assert results(calm)["states"]
    assert results(found) == results(calm)


def test_the_users_exception_names_client_and_round(one_node: None, tmp_path: Path) -> None:
    client = run_with("serial", tmp_path / "calm").records[1]["clients"][1]
    method = {"name": "tests.faults:Faulty", "faults": {f"2/{client}": "error"}}
    with pytest.raises(OwnError, match="it does not work") as caught:
        run_with("ray", tmp_path / "ray", method=method)
    assert caught.value.code == 7
    assert any(f"client {client} trained in round 2" in note for note in caught.value.__notes__)


def test_workers_that_were_lost_together_are_one_loss(
    one_node: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eunoe.engines.ray.cluster._LOSSES_ALLOWED", 2)
    simulation = make_simulation()
    broadcast = Broadcast(1, simulation.model.weights.copy())
    with Ray(simulation, ClientStates(tmp_path), workers=2) as engine:
        until(lambda: list(train(engine, [0], broadcast)) and len(engine.cluster._workers) == 2)
        for worker in engine.cluster._workers:
            ray.kill(worker.actor)
        (update,) = train(engine, [1], broadcast)
    assert update.client == 1


def test_it_warns_that_it_waits_for_a_core(
    one_node: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eunoe.engines.ray.cluster._PATIENCE", 0.5)

    class Other:
        def ready(self) -> None:
            """Be there, on a core."""

    others = [ray.remote(num_cpus=1)(Other).remote() for _ in range(2)]
    ray.get([other.ready.remote() for other in others])
    warned: list[str] = []

    def warning(text: str, *values: object) -> None:
        warned.append(text % values)
        for other in others:
            ray.kill(other)

    monkeypatch.setattr("eunoe.engines.ray.cluster.logger", SimpleNamespace(warning=warning))
    simulation = make_simulation()
    with Ray(simulation, ClientStates(tmp_path)) as engine:
        (update,) = train(engine, [1], Broadcast(1, simulation.model.weights.copy()))
    assert update.client == 1
    assert warned == ["waiting for a free place in the Ray cluster, which has 2 in all"]


@dataclass(eq=False)
class Reference:
    """What a scripted Ray gives for a task of a worker, or for a worker that begins (no task)."""

    worker: int
    task: int | None = None


class Scripted:
    """A stand-in for Ray: a script chooses what is there next, and whose results are lost."""

    exceptions = ray.exceptions

    def __init__(self, cores: int, next_one: Callable[[list[Reference]], Reference]) -> None:
        self.cores, self.next_one = cores, next_one
        self.hired = 0
        self.lost: set[int] = set()

    def is_initialized(self) -> bool:
        return True

    def cluster_resources(self) -> dict[str, int]:
        return {"CPU": self.cores}

    def put(self, value: Any) -> None:
        """Nobody asks for it."""

    def remote(self, num_cpus: int) -> Any:
        return lambda kind: SimpleNamespace(remote=self._hire)

    def _hire(self, references: Any, device: str, sharing: int) -> Any:
        self.hired += 1
        number = self.hired
        ready = SimpleNamespace(remote=lambda: Reference(number))
        return SimpleNamespace(number=number, ready=ready)

    def wait(self, references: list[Reference], timeout: float) -> tuple[list[Reference], list[Reference]]:
        return [self.next_one(references)], []

    def get(self, reference: Reference | list[Reference]) -> Any:
        if isinstance(reference, list):
            return [self.get(one) for one in reference]
        if reference.worker in self.lost:
            raise ray.exceptions.RayActorError
        return pack(("results", reference.task, Transfers()))

    def kill(self, actor: Any) -> None:
        """It is gone as it is."""


def in_order(scripted: Scripted, count: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The tasks in the order in which the engine gives their results."""
    monkeypatch.setitem(sys.modules, "ray", scripted)
    with Ray(make_simulation(), ClientStates(Path("none"))) as engine:
        return list(engine.cluster.in_order(count, lambda actor, number: Reference(actor.number, number)))


def test_the_one_worker_that_is_left_does_all_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    def next_one(references: list[Reference]) -> Reference:
        begins = [it for it in references if it.task is None and it.worker <= 4]
        if begins:
            return begins[0]
        # Three workers are lost with their node, one after the other; none comes in their place.
        scripted.lost = {1, 2, 3}
        tasks = [it for it in references if it.task is not None]
        assert tasks, "nobody works any more"
        return min(tasks, key=lambda it: it.worker)

    scripted = Scripted(4, next_one)
    assert in_order(scripted, 24, monkeypatch) == list(range(24))


def test_a_workers_results_are_those_of_their_tasks_whichever_is_there_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scripted = Scripted(1, lambda references: references[-1])
    assert in_order(scripted, 6, monkeypatch) == list(range(6))


OWN_SCRIPT = """
import sys, torch
from eunoe.methods.base import Method
from eunoe.simulation.running import run
from tests.faults import results
from tests.helpers import blobs

class Halved(Method):
    def correct(self, local, gradient):
        return gradient / 2

class Own(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = torch.nn.Sequential(torch.nn.Linear(5, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.2))
        self.last = torch.nn.Linear(8, 3)
    def forward(self, x):
        return self.last(self.body(x).relu())

found = []
for engine in ({"name": "serial"}, {"name": "ray", "workers": 1}):
    torch.manual_seed(0)
    done = run(federation=blobs(), model=Own(), method=Halved(), participation=3, rounds=2,
               engine=engine, out=f"{sys.argv[1]}/{engine['name']}")
    found.append(results(done))
import ray
assert not ray.is_initialized(), "the engine leaves its own Ray running"
assert found[0] == found[1], "other bits"
print("alike")
"""


def test_it_starts_and_ends_a_ray_of_its_own_and_knows_classes_of_the_users_script(tmp_path: Path) -> None:
    script = tmp_path / "own.py"
    script.write_text(OWN_SCRIPT)
    done = subprocess.run(
        [sys.executable, script, tmp_path],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", "."])},
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.stdout.endswith("alike\n"), done.stderr


def test_an_address_where_there_is_no_ray_is_an_error_of_input(no_ray: None, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot connect to Ray at 'no-port'"):
        run_with("ray", tmp_path / "ray", address="no-port")


@pytest.fixture
def cluster(no_ray: None) -> Iterator[Any]:
    """A head that trains nobody and three nodes of one core, on this machine."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
    for _ in range(3):
        cluster.add_node(num_cpus=1)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@pytest.mark.slow
def test_a_node_killed_in_a_round_is_not_missed_and_one_that_joins_is_used(
    cluster: Any, tmp_path: Path
) -> None:
    calm = run_with("serial", tmp_path / "calm", rounds=6, method="tests.faults:Faulty")
    chosen = [record["clients"] for record in calm.records]
    faults = {f"2/{chosen[1][0]}": "wait", **{f"{r}/{c}": "mark" for r in (5, 6) for c in chosen[r - 1]}}
    method = {"name": "tests.faults:Faulty", "faults": faults, "marks": str(tmp_path), "pause": 0.2}

    def lose_a_node() -> None:
        # The client waits for ten minutes: without a kill this round does not end.
        mark = tmp_path / f"2-{chosen[1][0]}"
        until(lambda: mark.exists() and mark.read_text())
        node = next(n for n in cluster.worker_nodes if raylet(n) == parent(mark))
        os.kill(raylet(node), signal.SIGKILL)
        cluster.remove_node(node, allow_graceful=False)

    def win_a_node(record: dict[str, Any]) -> None:
        if record["round"] == 3:
            killer.join()
            joined.append(cluster.add_node(num_cpus=1))
        if record["round"] == 4:
            # It has got a worker, which takes some seconds to start.
            until(lambda: any(is_ready(pid) for pid in children(raylet(joined[0]))))

    joined: list[Any] = []
    killer = threading.Thread(target=lose_a_node)
    killer.start()
    found = run_with("ray", tmp_path / "ray", 6, address=cluster.address, method=method, on_round=win_a_node)
    assert not ray.is_initialized()
    assert results(found) == results(calm)
    used = {parent(mark) for mark in tmp_path.glob("[56]-*")}
    assert used == {raylet(node) for node in cluster.worker_nodes}


def is_ready(pid: int) -> bool:
    return Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0 ") == b"ray::Actor"


def raylet(node: Any) -> int:
    (started,) = node.all_processes["raylet"]
    return int(started.process.pid)


def parent(mark: Path) -> int:
    return int(mark.read_text().split()[1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "loss"),
    # Training in one place has no clients whose loss could be chosen.
    [
        *product(registry.names("method"), ["ce"]),
        *product(sorted({*registry.names("method")} - {"central"}), ["wsm"]),
    ],
)
def test_every_method_has_the_same_bits_on_ray(
    one_node: None, tmp_path: Path, method: str, loss: str
) -> None:
    # One worker, since it is the start of workers that takes long.
    values = {"method": method, "loss": loss, **REFERENCES.get(method, {})}
    pair = [run_with(e, tmp_path / e, workers=1, **values) for e in ("serial", "ray")]
    assert results(pair[0]) == results(pair[1])


@pytest.mark.parametrize("option", [{"staleness": {"max": 2}}, {"private": "classifier"}])
def test_stale_updates_and_private_parts_have_the_bits_of_the_serial_engine(
    one_node: None, tmp_path: Path, option: dict[str, Any]
) -> None:
    values = {"rounds": 4, "participation": 5, "method": "scaffold", "probes": [], **option}
    engine = {"name": "ray", "workers": 1}
    torch.manual_seed(0)
    done = run({**values, "engine": engine}, federation=blobs(clients=8), model=Net(), out=tmp_path / "ray")
    torch.manual_seed(0)
    serial = {**values, "engine": "serial"}
    plain = run(serial, federation=blobs(clients=8), model=Net(), out=tmp_path / "serial")
    assert bits(done.folder) == bits(plain.folder)


@pytest.mark.parametrize("task", ["multilabel", "regression"])
def test_labels_and_numbers_have_the_bits_of_the_serial_engine(tmp_path: Path, task: str) -> None:
    values = {
        "rounds": 2,
        "participation": 3,
        "model": {"name": "mlp", "hidden": [8]},
        "checkpoint_seconds": 0,
    }
    runs = [
        run({**values, "engine": engine}, federation=other_task(task), out=tmp_path / engine)
        for engine in ("serial", "ray")
    ]
    assert bits(runs[0].folder) == bits(runs[1].folder)

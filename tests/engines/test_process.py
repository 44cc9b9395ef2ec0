"""The process engine: the bits of the serial one, whatever happens to its workers."""

import multiprocessing
import os
import pickle
import signal
import struct
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import torch

from eunoe.engines import workers as pool
from eunoe.engines.client_states import ClientStates
from eunoe.engines.process import Process
from eunoe.engines.workers import portable_error
from eunoe.errors import ClientError, RunFailed
from eunoe.methods.base import Method
from eunoe.methods.context import ClientContext
from eunoe.server.updates import Broadcast
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from tests.faults import Faulty, OwnError, alive, children, results
from tests.helpers import Net, blobs, make_simulation, train
from tests.waiting import PATIENCE, until


def run_with(engine: str, out: Path, workers: int = 2, **method: Any) -> Run:
    torch.manual_seed(0)
    return run(
        federation=blobs(clients=8),
        model=Net(),
        method=Faulty(**method),
        participation=6,
        rounds=3,
        engine={"name": engine, "workers": workers if engine == "process" else None},
        out=out,
    )


@pytest.fixture
def serial(tmp_path: Path) -> dict[str, Any]:
    return results(run_with("serial", tmp_path / "serial"))


@pytest.mark.parametrize("workers", [1, 3])
def test_it_gives_the_bits_of_the_serial_engine(tmp_path: Path, serial: dict[str, Any], workers: int) -> None:
    assert results(run_with("process", tmp_path / "process", workers)) == serial


def test_a_worker_killed_at_work_is_replaced_and_no_bit_changes(
    tmp_path: Path, serial: dict[str, Any]
) -> None:
    clients = Run(tmp_path / "serial").records[1]["clients"]
    faults = {f"2/{client}": "kill" for client in clients[::2]}
    found = results(run_with("process", tmp_path / "process", faults=faults, marks=str(tmp_path)))
    assert len(list(tmp_path.glob("2-*"))) == len(faults)
    assert found == serial


class Deadly(Method):
    """Ends whatever process a client trains in."""

    def begin(self, client_context: ClientContext) -> None:
        if client_context.id == 3:
            os.kill(os.getpid(), signal.SIGKILL)


def test_a_client_at_which_every_worker_dies_ends_the_run_and_is_named(tmp_path: Path) -> None:
    with pytest.raises(RunFailed, match="3 worker processes died at client 3 of round 1"):
        run(
            federation=blobs(clients=4),
            model=Net(),
            method=Deadly(),
            participation=1.0,
            engine={"name": "process", "workers": 2},
            out=tmp_path,
        )


def test_a_worker_that_dies_in_the_midst_of_its_answer_is_replaced(
    tmp_path: Path, serial: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mark, work = tmp_path / "died", pool._work

    def half(workers: pool.Workers, worker: Any, pipe: Connection, inherited: list[Connection]) -> None:
        if not mark.exists():
            mark.touch()
            pipe.recv()
            os.write(pipe.fileno(), struct.pack("!i", 1000) + b"half")
            os.kill(os.getpid(), signal.SIGKILL)
        work(workers, worker, pipe, inherited)

    monkeypatch.setattr(pool, "_work", half)
    found = results(run_with("process", tmp_path / "process", 1))
    assert mark.exists()
    assert found == serial


class Unreachable(Method):
    """A client's own failure, of the kind that a pipe has when its other end is gone."""

    def begin(self, client_context: ClientContext) -> None:
        raise ConnectionError("no sensor")


def test_a_client_without_a_connection_is_no_worker_that_died(tmp_path: Path) -> None:
    simulation = replace(make_simulation(), method=Unreachable())
    engine = Process(simulation, ClientStates(tmp_path), 1)
    with engine, pytest.raises(ConnectionError, match="no sensor"):
        list(train(engine, [0], Broadcast(1, simulation.model.weights.copy())))


def test_where_the_system_does_not_say_which_cores_it_takes_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    assert Process(make_simulation(), ClientStates(tmp_path)).workers.count == os.cpu_count()


@pytest.mark.parametrize("engine", ["serial", "process"])
def test_the_users_exception_names_client_and_round(tmp_path: Path, engine: str) -> None:
    client = run_with("serial", tmp_path / "calm").records[1]["clients"][1]
    with pytest.raises(OwnError, match="it does not work") as caught:
        run_with(engine, tmp_path / "run", faults={f"2/{client}": "error"})
    assert caught.value.code == 7
    assert any(f"client {client} trained in round 2" in note for note in caught.value.__notes__)


@pytest.mark.parametrize("kind", ["nan", "inf", "wrong size"])
def test_a_refused_update_is_refused_alike(tmp_path: Path, kind: str) -> None:
    client = run_with("serial", tmp_path / "calm").records[1]["clients"][1]
    runs = [run_with(e, tmp_path / e, faults={f"2/{client}": kind}) for e in ("serial", "process")]
    assert [d["client"] for d in runs[1].records[1]["dropped"]] == [client]
    assert results(runs[0]) == results(runs[1])


def test_workers_end_when_the_main_process_is_killed(tmp_path: Path) -> None:
    client = run_with("serial", tmp_path / "calm").records[0]["clients"][0]
    main = multiprocessing.get_context("fork").Process(
        target=run_with, args=("process", tmp_path / "run"), kwargs={
            "faults": {f"1/{client}": "wait"}, "marks": str(tmp_path)
        },
    )  # fmt: skip
    main.start()
    until(lambda: (tmp_path / f"1-{client}").exists())
    workers = children(main.pid)
    assert workers
    os.kill(main.pid or 0, signal.SIGKILL)
    main.join(PATIENCE)
    # Even the one in the middle of a long task, which would otherwise hold the folder's lock.
    until(lambda: not any(alive(pid) for pid in workers))


def test_workers_keep_the_memory_that_they_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "keep_freed_memory", (tmp_path / "kept").touch)
    simulation = make_simulation()
    with Process(simulation, ClientStates(tmp_path), 1) as engine:
        list(train(engine, [0], Broadcast(1, simulation.model.weights.copy())))
    assert (tmp_path / "kept").exists()


def raised(error: Exception) -> Exception:
    try:
        raise error
    except Exception as caught:
        return caught


def test_it_arrives_as_itself_with_where_it_came_from() -> None:
    error = raised(OwnError("a", 3))
    error.add_note("client 4")
    sent = pickle.loads(pickle.dumps(portable_error(error)))
    assert isinstance(sent, OwnError)
    assert sent.code == 3
    assert sent.__notes__[0] == "client 4"
    assert "in raised" in sent.__notes__[1]


def test_what_cannot_be_sent_arrives_as_its_trace() -> None:
    class Local(Exception):
        pass

    error = raised(Local("deep"))
    error.add_note("client 4")
    sent = pickle.loads(pickle.dumps(portable_error(error)))
    assert isinstance(sent, ClientError)
    assert "Local: deep" in str(sent)
    assert "client 4" in str(sent)

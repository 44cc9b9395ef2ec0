"""Clients on all cores of this machine: a single-threaded worker process per core.

Workers are forked, so they share the samples with this process without a copy and know a user's
classes wherever those were defined. Weights go down and updates come up through shared memory; a pipe
per worker carries what to do and how it went. A worker that dies is replaced and its task given out
again: the same client in the same round gives the same bits.
"""

import multiprocessing
import signal
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import Any

import torch

from eunoe.core.flat_model import Weights
from eunoe.engines.base import Engine, Predictions, Rows, chunks, cores, evaluate_chunk, joined
from eunoe.engines.client_states import ClientStates
from eunoe.engines.portable import portable
from eunoe.engines.serial import train_and_keep
from eunoe.engines.shared import SharedVectors, shapes
from eunoe.errors import InputError, RunFailed
from eunoe.system.memory import keep_freed_memory
from eunoe.system.signals import end_with_the_parent
from eunoe.training.client import Broadcast, Update
from eunoe.training.simulation import Simulation

# A task that ends this many workers (for want of memory, say) would end the next one too.
_DEATHS_ALLOWED = 3


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    slot: SharedVectors
    model: SharedVectors
    task: int | None = None


class Process(Engine):
    """A worker per core."""

    def __init__(self, simulation: Simulation, states: ClientStates, workers: int | None = None) -> None:
        super().__init__(simulation, states)
        if simulation.model.device.type != "cpu":
            raise InputError("the process engine trains on the CPU; take engine 'serial' for another device")
        if "fork" not in multiprocessing.get_all_start_methods():
            raise InputError("the process engine needs a system that forks; take engine 'serial' here")
        self.count = workers or cores()
        self._workers: list[_Worker] = []
        self._broadcast: SharedVectors | None = None

    def train(self, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        message = {**broadcast.weights.vectors(), **{f"shared {k}": v for k, v in broadcast.shared.items()}}
        if self._broadcast is None or shapes(self._broadcast.vectors) != shapes(message):
            self.close()
            self._broadcast = SharedVectors(shapes(message))
        self._broadcast.write(message)
        accepted = [self.states.accepted.get(client) for client in clients]
        tasks = [
            ("train", client, broadcast.round, state) for client, state in zip(clients, accepted, strict=True)
        ]
        yield from self._in_order(tasks, [None] * len(tasks))

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        parts = chunks(self.simulation, where)
        tasks = [("evaluate", part) for _ in models for part in parts]
        owners = [model for model in models for _ in parts]
        results = list(self._in_order(tasks, owners))
        return [joined(results[i : i + len(parts)]) for i in range(0, len(results), len(parts))]

    def close(self) -> None:
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join(2)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers = []

    def _in_order(self, tasks: Sequence[Any], models: Sequence[Weights | None]) -> Iterator[Any]:
        """Give out tasks to idle workers and give back their results in the order of the tasks.

        No task is given out that is further ahead of the next result than twice the workers, so that
        few results wait for their turn.
        """
        while len(self._workers) < min(self.count, max(len(tasks), 1)):
            self._start()
        waiting, deaths, done = deque(range(len(tasks))), [0] * len(tasks), {}
        next_result = 0
        try:
            while next_result < len(tasks):
                for worker in self._workers:
                    if worker.task is None and waiting and waiting[0] < next_result + 2 * self.count:
                        self._give(worker, waiting.popleft(), tasks, models)
                for worker in self._ready():
                    task = worker.task
                    assert task is not None
                    try:
                        answer = worker.pipe.recv()
                    except (EOFError, OSError):
                        # It died, perhaps in the midst of its answer.
                        deaths[task] += 1
                        if deaths[task] == _DEATHS_ALLOWED:
                            raise RunFailed(
                                f"{deaths[task]} worker processes died {_at(tasks[task])}; "
                                "the machine may be short of memory: take fewer workers"
                            ) from None
                        self._replace(worker)
                        waiting.appendleft(task)
                    else:
                        done[task] = _result(worker, *answer)
                        worker.task = None
                while next_result in done:
                    yield done.pop(next_result)
                    next_result += 1
        finally:
            if any(worker.task is not None for worker in self._workers):
                # Left in the middle: the workers' results are of no use any more.
                for worker in self._workers:
                    worker.process.kill()
                self.close()

    def _ready(self) -> list[_Worker]:
        busy = [worker for worker in self._workers if worker.task is not None]
        ready = set(wait([worker.pipe for worker in busy]))
        return [worker for worker in busy if worker.pipe in ready]

    def _give(
        self, worker: _Worker, number: int, tasks: Sequence[Any], models: Sequence[Weights | None]
    ) -> None:
        model = models[number]
        if model is not None:
            worker.model.write(model.vectors())
        worker.task = number
        # A worker that has died shows when its result is read.
        with suppress(ConnectionError):
            worker.pipe.send(tasks[number])

    def _start(self) -> None:
        simulation = self.simulation
        model = shapes(simulation.model.weights.vectors())
        uploads = simulation.method.uploads(simulation.context)
        slot = {
            **model,
            **{f"upload {name}": (u.size, simulation.model.dtype) for name, u in uploads.items()},
        }
        ours, theirs = multiprocessing.Pipe()
        worker = _Worker(None, ours, SharedVectors(slot), SharedVectors(model))  # type: ignore[arg-type]
        others = [other.pipe for other in self._workers]
        worker.process = multiprocessing.get_context("fork").Process(
            target=_work, args=(self, worker, theirs, [*others, ours]), daemon=True
        )
        worker.process.start()
        theirs.close()
        self._workers.append(worker)

    def _replace(self, worker: _Worker) -> None:
        worker.pipe.close()
        worker.process.join()
        self._workers.remove(worker)
        self._start()


def _result(worker: _Worker, kind: str, result: Any) -> Any:
    if kind == "error":
        raise result
    if kind == "update":
        vectors = worker.slot.read()
        result.weights = Weights.from_vectors(vectors)
        result.uploads = {k[7:]: v for k, v in vectors.items() if k.startswith("upload ")}
    return result


def _work(engine: Process, worker: _Worker, pipe: Connection, inherited: list[Connection]) -> None:
    """A worker's life: do what the pipe says until it closes."""
    for connection in inherited:
        # While a copy of the other end lives here, this pipe would not close when the main process dies.
        connection.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_the_parent()
    torch.set_num_threads(1)
    keep_freed_memory()
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            answer = _do(engine, worker, task)
        except Exception as error:
            answer = ("error", portable(error))
        try:
            pipe.send(answer)
        except OSError:
            return


def _do(engine: Process, worker: _Worker, task: tuple[Any, ...]) -> tuple[str, Any]:
    if task[0] == "evaluate":
        return "predictions", evaluate_chunk(
            engine.simulation, Weights.from_vectors(worker.model.vectors), task[1]
        )
    _, client, round, state_of = task
    assert engine._broadcast is not None
    vectors = engine._broadcast.vectors
    shared = {name[7:]: value for name, value in vectors.items() if name.startswith("shared ")}
    engine.states.accepted = {} if state_of is None else {client: state_of}
    update = train_and_keep(engine, client, Broadcast(round, Weights.from_vectors(vectors), shared))
    values = {
        **update.weights.vectors(),
        **{f"upload {name}": value for name, value in update.uploads.items()},
    }
    if not worker.slot.fits(values):
        # It goes up as it is, for the server to refuse.
        return "misfit", update
    worker.slot.write(values)
    empty = torch.empty(0)
    update.weights, update.uploads = Weights(empty, empty, empty), {}
    return "update", update


def _at(task: tuple[Any, ...]) -> str:
    return f"at client {task[1]} of round {task[2]}" if task[0] == "train" else "at evaluating a model"

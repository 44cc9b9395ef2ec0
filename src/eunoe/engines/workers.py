"""The worker processes of the process engine.

Workers are forked, so they share the samples with this process without a copy and know a user's classes
wherever those were defined. A worker that dies is replaced and its task is rescheduled: the same client
in the same round gives the same bits.
"""

import mmap
import multiprocessing
import pickle
import signal
import traceback
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from types import ModuleType
from typing import Any

import torch
from torch import Tensor

from eunoe.core.flat_model import Vectors, Weights
from eunoe.engines.base import evaluate_chunk
from eunoe.engines.client_states import ClientStates
from eunoe.engines.devices import Transfers, WorkerDevice
from eunoe.engines.serial import train_and_save
from eunoe.engines.simulation import Simulation
from eunoe.errors import ClientError, RunFailed
from eunoe.metrics.base import Rows
from eunoe.server.updates import Broadcast, drop_vectors
from eunoe.system.machine import keep_freed_memory
from eunoe.system.signals import end_with_parent

# Vectors by group and name, and their sizes and types.
Groups = Mapping[str, Mapping[str, Tensor]]
Layout = dict[str, dict[str, tuple[int, torch.dtype]]]


class SharedVectors:
    """Groups of named vectors of fixed sizes and types, in memory shared with forked processes.

    Anonymous maps need no file and are not bound by the size of /dev/shm, which containers often keep at
    64 MB. They start at a memory page, so vectors in them are aligned as torch's own.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.groups: dict[str, Vectors] = {
            group: {name: _map_vector(*like) for name, like in names.items()}
            for group, names in layout.items()
        }

    def write(self, values: Groups) -> None:
        """Copy values in."""
        for group, vectors in values.items():
            for name, value in vectors.items():
                self.groups[group][name].copy_(value)

    def fits(self, values: Groups) -> bool:
        """Return whether these vectors have the layout of the map."""
        return _shapes(values) == _shapes(self.groups)

    def read(self) -> dict[str, Vectors]:
        """Copy all values out."""
        return {group: {name: v.clone() for name, v in own.items()} for group, own in self.groups.items()}


def _map_vector(size: int, dtype: torch.dtype) -> Tensor:
    return torch.frombuffer(mmap.mmap(-1, max(size, 1) * dtype.itemsize), dtype=dtype)[:size]


def layout_of(values: Groups) -> Layout:
    """Sizes and types of vectors."""
    return {group: {name: (v.numel(), v.dtype) for name, v in own.items()} for group, own in values.items()}


def _shapes(values: Groups) -> dict[str, dict[str, torch.Size]]:
    return {group: {name: v.shape for name, v in vectors.items()} for group, vectors in values.items()}


# A task that kills this many workers (out of memory, for example) would kill the next one too.
_DEATHS_ALLOWED = 3


@dataclass(frozen=True)
class Participation:
    """Work item: train a client from its state after a round, or from none."""

    client: int
    round: int
    state_of: int | None

    def __str__(self) -> str:
        return f"client {self.client} of round {self.round}"


@dataclass(frozen=True)
class Evaluation:
    """Work item: evaluate the model in the worker's shared memory on a chunk of samples."""

    rows: Rows

    def __str__(self) -> str:
        return "evaluating a model"


WorkItem = Participation | Evaluation


@dataclass
class _Worker:
    process: BaseProcess
    pipe: Connection
    # Where it writes an update, and where it reads a model to evaluate.
    slot: SharedVectors
    model: SharedVectors
    device: str = "cpu"
    task: int | None = None


class Workers:
    """A pool of forked processes."""

    def __init__(self, simulation: Simulation, states: ClientStates, devices: Sequence[str]) -> None:
        """There is a worker for each entry of `devices`, bound to it."""
        self.transfers = Transfers()
        self.simulation, self.states, self.count = simulation, states, len(devices)
        self.devices = list(devices)
        self.broadcast: SharedVectors | None = None
        self._workers: list[_Worker] = []

    def send(self, broadcast: Broadcast) -> None:
        """Write a broadcast to memory shared by all workers."""
        message = {"weights": broadcast.weights.vectors(), "shared": broadcast.shared}
        if self.broadcast is None or self.broadcast.layout != layout_of(message):
            self.close()
            self.broadcast = SharedVectors(layout_of(message))
        self.broadcast.write(message)

    def close(self) -> None:
        """Stop all workers."""
        for worker in self._workers:
            worker.pipe.close()
        for worker in self._workers:
            worker.process.join(2)
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
        self._workers = []

    def in_order(self, tasks: Sequence[WorkItem], models: Sequence[Weights] = ()) -> Iterator[Any]:
        """Schedule tasks on idle workers and yield their results in the order of the tasks.

        Evaluations come with the model of each. No task is scheduled that is further ahead of the next
        result than twice the number of workers, so that few results are buffered.
        """
        while len(self._workers) < min(self.count, max(len(tasks), 1)):
            self._start()
        waiting, deaths, done = deque(range(len(tasks))), [0] * len(tasks), dict[int, Any]()
        next_result = 0
        try:
            while next_result < len(tasks):
                for worker in self._workers:
                    if worker.task is None and waiting and waiting[0] < next_result + 2 * self.count:
                        self._give(worker, waiting.popleft(), tasks, models)
                # While the workers train.
                while next_result in done:
                    yield done.pop(next_result)
                    next_result += 1
                busy = {worker.pipe: worker for worker in self._workers if worker.task is not None}
                for pipe in wait(list(busy)) if busy else ():
                    assert isinstance(pipe, Connection)
                    worker = busy[pipe]
                    task = worker.task
                    assert task is not None
                    try:
                        answer = worker.pipe.recv()
                    except (EOFError, OSError):
                        # It died, perhaps while sending its reply.
                        deaths[task] += 1
                        if deaths[task] == _DEATHS_ALLOWED:
                            raise RunFailed(
                                f"{deaths[task]} worker processes died at {tasks[task]}; "
                                "the machine may be short of memory: use fewer workers"
                            ) from None
                        worker.pipe.close()
                        worker.process.join()
                        self._workers.remove(worker)
                        self._start()
                        waiting.appendleft(task)
                    else:
                        self.transfers.add(answer.pop())
                        done[task] = _result(worker, *answer)
                        worker.task = None
        finally:
            if any(worker.task is not None for worker in self._workers):
                # Closed early: the workers' results are no longer needed.
                for worker in self._workers:
                    worker.process.kill()
                self.close()

    def _give(
        self, worker: _Worker, number: int, tasks: Sequence[WorkItem], models: Sequence[Weights]
    ) -> None:
        if models:
            worker.model.write({"weights": models[number].vectors()})
        worker.task = number
        # A dead worker is detected when its result is read.
        with suppress(ConnectionError):
            worker.pipe.send(tasks[number])

    def _start(self) -> None:
        simulation = self.simulation
        model = layout_of({"weights": simulation.model.weights.vectors()})
        uploads = simulation.method.uploads(simulation.context)
        slot = {**model, "uploads": {name: (u.size, simulation.model.dtype) for name, u in uploads.items()}}
        ours, theirs = multiprocessing.Pipe()
        # The first entry of the devices that no worker is bound to.
        free = Counter(self.devices) - Counter(worker.device for worker in self._workers)
        device = next(device for device in self.devices if free[device])
        worker = _Worker(None, ours, SharedVectors(slot), SharedVectors(model), device)  # type: ignore[arg-type]
        others = [other.pipe for other in self._workers]
        worker.process = multiprocessing.get_context("fork").Process(
            target=_work, args=(self, worker, theirs, [*others, ours]), daemon=True
        )
        worker.process.start()
        theirs.close()
        self._workers.append(worker)


def _result(worker: _Worker, kind: str, result: Any) -> Any:
    if kind == "error":
        raise result
    if kind == "update":
        groups = worker.slot.read()
        result.weights, result.uploads = Weights.from_vectors(groups["weights"]), groups["uploads"]
    return result


def _work(workers: Workers, worker: _Worker, pipe: Connection, inherited: list[Connection]) -> None:
    """Process tasks from the pipe until it closes."""
    for connection in inherited:
        # With a copy of the other end open here, this pipe would not close when the main process dies.
        connection.close()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    torch.set_num_threads(1)
    keep_freed_memory()
    device: WorkerDevice | None = None
    while True:
        try:
            task = pipe.recv()
        except (EOFError, OSError):
            return
        try:
            if device is None:
                # With the first task, whose failure is reported: a device may be out of memory.
                device = WorkerDevice(workers.simulation, worker.device, workers.devices.count(worker.device))
                workers.states.device = device.device
            answer = _process(workers, worker, task, device)
        except Exception as error:  # Raised again in the main process.
            answer = ("error", portable_error(error))
        moved = device.transfers.take() if device else Transfers()
        try:
            pipe.send([*answer, moved])
        except OSError:
            return


def _process(workers: Workers, worker: _Worker, task: WorkItem, device: WorkerDevice) -> tuple[str, Any]:
    if isinstance(task, Evaluation):
        model = Weights.from_vectors(worker.model.groups["weights"])
        return "predictions", evaluate_chunk(device.simulation, model, task.rows)
    assert workers.broadcast is not None
    sent, states = workers.broadcast.groups, workers.states
    broadcast = Broadcast(task.round, Weights.from_vectors(sent["weights"]), sent["shared"])
    states.accepted = {} if task.state_of is None else {task.client: task.state_of}
    simulation = device.in_round(task.round)
    update = train_and_save(simulation, states, task.client, device.received(broadcast))
    values = {"weights": update.weights.vectors(), "uploads": update.uploads}
    if not worker.slot.fits(values):
        # Sent as it is; the server will refuse it.
        return "misfit", update
    worker.slot.write(values)
    return "update", drop_vectors(update)


def portable_error(error: Exception, pickling: ModuleType = pickle) -> Exception:
    """Return an exception that can be pickled, with its traceback as a note."""
    trace = "".join(traceback.format_exception(error))
    error.add_note(trace)
    try:
        pickle.loads(pickling.dumps(error))
        return error
    except Exception:  # A user's exception may fail to pickle in any way.
        return ClientError(trace)

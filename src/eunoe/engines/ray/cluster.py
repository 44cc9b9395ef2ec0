"""The workers of the Ray engine: actors on the cores of a cluster, and the scheduling of their tasks.

A task whose worker or node was lost is rescheduled: the same client in the same round gives the same bits.
Workers are actors, not Ray tasks, which wait up to a tenth of a second to be placed. Cores that join get a
worker when the next round begins.
"""

import logging
import os
from collections import Counter
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

from eunoe.engines.devices import Transfers
from eunoe.engines.ray.actor import Actor, Packed, pack, unpack
from eunoe.engines.ray.connection import connect
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError, RunFailed, install_command
from eunoe.text import one_line

logger = logging.getLogger(__name__)

# A task that kills this many workers would kill the next one too; likewise workers that cannot start.
_LOSSES_ALLOWED = 3
# Tasks per worker that may be ahead of the next result, so that few results are buffered.
_AHEAD = 3
# Seconds without a result after which to check that a worker is still alive.
_PATIENCE = 10.0

Submit = Callable[[Any, int], Any]


@dataclass
class _Worker:
    """A worker and its queue of tasks, the running one first."""

    actor: Any
    tasks: list[int] = field(default_factory=list)
    # Whether it has ever been ready.
    begun: bool = False


# Which worker runs which task, by the reference to the result; a worker's second result may be ready
# before its first, which may be larger.
_Running = dict[Any, tuple[_Worker, int]]


class Cluster:
    """A Ray cluster, or a local Ray instance, with a worker per core or several per GPU."""

    def __init__(
        self, simulation: Simulation, address: str | None, workers: int | None, per_gpu: int | None = None
    ) -> None:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise InputError(f"the ray engine needs Ray: run {install_command('ray')}") from None
        self._ray, self._limit, self._per_gpu = ray, workers, per_gpu
        # Raised when a worker or a result is lost.
        self.lost: type[Exception] = ray.exceptions.RayError
        # What this process sends to the cluster and gets back, and what workers copy to their devices.
        self.transfers = Transfers()
        self._workers: list[_Worker] = []
        # Workers that wait for a core, load the simulation or may be lost, by the reference to their
        # readiness.
        self._starting: dict[Any, _Worker] = {}
        self._failed_starts = 0
        self._warned = False
        self._connected = not ray.is_initialized()
        if self._connected:
            connect(address, workers, simulation.model.weights)
        try:
            # The server's trainer is not needed by workers.
            sent = replace(simulation, context=replace(simulation.context, trainer=None))
            self._simulation = self.put(sent)
            self.hire()
        except BaseException:
            self.close()
            raise

    def put(self, value: Any) -> Any:
        """Store a value once for all workers; return its reference."""
        value = pack(value)
        self.transfers.count("to the store", _bytes(value))
        return self._ray.put(value)

    def get(self, references: list[Any]) -> list[Packed]:
        """Fetch the results of tasks."""
        results: list[Packed] = self._ray.get(references)
        for result in results:
            self.transfers.count("to the driver", _bytes(result))
        return results

    def close(self) -> None:
        """Stop all workers and disconnect from the cluster."""
        for worker in [*self._workers, *self._starting.values()]:
            self.stop(worker.actor)
        self._workers, self._starting = [], {}
        # Ray's shutdown stops an instance that `_connect` started, and only disconnects from an existing one.
        if self._connected and self._ray.is_initialized():
            self._ray.shutdown()

    def in_order(self, count: int, submit: Submit) -> Generator[Any]:
        """Schedule tasks on the workers and yield their results in the order of the tasks."""
        waiting, losses = list(range(count)), Counter[int]()
        running: _Running = {}
        done: dict[int, Packed] = {}
        yielded = 0
        try:
            while yielded < count:
                self._schedule(waiting, yielded, running, submit)
                ready, _ = self._ray.wait([*running, *self._starting], timeout=_PATIENCE)
                if not ready and not self._workers:
                    # Fails if no worker can start any more.
                    total = self.places()
                    if not self._warned:
                        self._warned = True
                        message = "waiting for a free place in the Ray cluster, which has %d in all"
                        logger.warning(message, total)
                for reference in ready:
                    if reference in self._starting:
                        self._begin(reference)
                        continue
                    worker, number = running.pop(reference)
                    try:
                        (result,) = self.get([reference])
                    except self.lost as error:
                        self._lose(worker, running, waiting, losses, error)
                    else:
                        worker.tasks.remove(number)
                        done[number] = result
                while yielded in done:
                    kind, value, moved = unpack(done.pop(yielded))
                    self.transfers.add(moved)
                    if kind == "error":
                        raise value
                    yield value
                    yielded += 1
        finally:
            # Closed early: these results are no longer needed.
            for worker in [worker for worker in self._workers if worker.tasks]:
                self.stop(worker.actor)
                self._workers.remove(worker)

    def _schedule(self, waiting: list[int], next_result: int, running: _Running, submit: Submit) -> None:
        """Schedule a task on every worker and, while there are plenty, a second one to avoid idling."""
        for depth in (0, 1):
            for worker in self._workers:
                enough = len(waiting) > depth * len(self._workers)
                if (
                    enough
                    and len(worker.tasks) == depth
                    and waiting[0] < next_result + _AHEAD * len(self._workers)
                ):
                    number = waiting.pop(0)
                    worker.tasks.append(number)
                    running[submit(worker.actor, number)] = worker, number

    def _lose(
        self, worker: _Worker, running: _Running, waiting: list[int], losses: Counter[int], error: Exception
    ) -> None:
        """Reschedule the tasks of a lost worker."""
        for reference in [reference for reference, (owner, _) in running.items() if owner is worker]:
            del running[reference]
        losses[worker.tasks[0]] += 1
        if losses[worker.tasks[0]] == _LOSSES_ALLOWED:
            reason = one_line(str(error))[:1000]
            raise RunFailed(f"{_LOSSES_ALLOWED} Ray workers were lost at one task: {reason}") from error
        # In order: if the first were not the one that the next result waits for, it might never be scheduled.
        waiting += worker.tasks
        waiting.sort()
        worker.tasks = []
        self._workers.remove(worker)
        self.stop(worker.actor)
        # A lost node takes all its workers along: an idle worker must answer before it gets a task, which
        # could otherwise be lost at one worker after the other.
        for idle in [other for other in self._workers if not other.tasks]:
            self._workers.remove(idle)
            self._starting[idle.actor.ready.remote()] = idle
        self.hire()

    def hire(self) -> None:
        """Start a worker for every core, or share of a GPU; Ray places it when one is free."""
        share: dict[str, float] = {"num_cpus": 1}
        place = "cpu", 1
        if self._per_gpu is not None:
            # Ray shows a worker its own GPU only, which is the first one there.
            share, place = {"num_cpus": 0, "num_gpus": 1 / self._per_gpu}, ("cuda:0", self._per_gpu)
        actor = self._ray.remote(**share)(Actor)
        wanted = self.places() if self._limit is None else min(self.places(), self._limit)
        for _ in range(len(self._workers) + len(self._starting), wanted):
            worker = _Worker(actor.remote([self._simulation], *place))
            self._starting[worker.actor.ready.remote()] = worker

    def _begin(self, reference: Any) -> None:
        """Add a worker to the pool if it is ready."""
        worker = self._starting.pop(reference)
        try:
            self._ray.get(reference)
        except self.lost as error:
            self._failed_starts += not worker.begun
            if self._failed_starts == _LOSSES_ALLOWED:
                reason = one_line(str(error))[:1000]
                raise RunFailed(f"no worker can start on the Ray cluster: {reason}") from error
            self.hire()
        else:
            self._failed_starts, self._warned, worker.begun = 0, False, True
            self._workers.append(worker)

    def stop(self, actor: Any) -> None:
        """End an actor."""
        with suppress(self.lost):
            self._ray.kill(actor)

    def places(self) -> int:
        """Return how many workers the cluster has room for: its cores, or shares of its GPUs."""
        resource, name = ("CPU", "core") if self._per_gpu is None else ("GPU", "GPU")
        count = int(self._ray.cluster_resources().get(resource, 0)) * (self._per_gpu or 1)
        if count < 1:
            raise RunFailed(f"the Ray cluster has no {name} to train on; resume when a node has joined")
        return count


def _bytes(value: Packed) -> int:
    data, buffers = value
    return len(data) + sum(buffer.nbytes for buffer in buffers)

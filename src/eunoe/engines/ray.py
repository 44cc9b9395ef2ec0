"""Clients on a Ray cluster: a task of one core for every client, or for a few small ones together.

The job goes into Ray's object store once and from there once to each node, whose workers share it; so
do a round's weights. A client's state goes down with its task and comes back with its update. A task
whose worker or node was lost is given out again: the same client in the same round gives the same bits.
Ray decides which node a task goes to, so a node that joins takes part and one that leaves is not missed.
"""

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

import torch

from eunoe.engines.base import Engine, Predictions, Rows, chunks, evaluate_chunk, joined
from eunoe.engines.packing import Packed, packed, unpacked
from eunoe.engines.portable import portable
from eunoe.engines.serial import noting
from eunoe.errors import InputError, RunFailed
from eunoe.job import Job
from eunoe.states import ClientStates
from eunoe.training import Received, Update, train_client
from eunoe.vector import Weights

# A task that is lost this often would be lost again.
_LOSSES_ALLOWED = 3
# Tasks per core that may be ahead of the next result, so that few results wait for their turn.
_AHEAD = 2
# A round is cut into at least this many tasks per core, so that all cores end at about the same time;
# and no task brings back more than these bytes, unless a single client does.
_SHARES = 16
_BYTES = 2**20
# Seconds without a result after which to ask whether there is still somebody to wait for.
_PATIENCE = 10.0

Submit = Callable[[int], Any]


class Ray(Engine):
    """A Ray cluster, or a Ray of its own on this machine."""

    def __init__(
        self, job: Job, states: ClientStates, address: str | None = None, workers: int | None = None
    ) -> None:
        super().__init__(job, states)
        if job.model.device.type != "cpu":
            raise InputError("the ray engine trains on the CPU; take engine 'serial' for another device")
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        try:
            import ray
        except ImportError:
            raise InputError("the ray engine needs Ray: pip install 'eunoe[ray]'") from None
        self._ray, self._limit = ray, workers
        self._connected = not ray.is_initialized()
        if self._connected:
            _connect(address or os.environ.get("RAY_ADDRESS") or "local", workers)
        remote = ray.remote(num_cpus=1, max_retries=0)
        self._train, self._evaluate = remote(_train), remote(_evaluate)
        try:
            self._cores()
            # What is trained on at the server stays there.
            sent = replace(job, setting=replace(job.setting, trainer=None))
            self._job = ray.put(packed(sent))
        except BaseException:
            self.close()
            raise

    def train(self, clients: Sequence[int], received: Received) -> Iterator[Update]:
        together = max(1, min(len(clients) // (_SHARES * self._cores()), _BYTES // self._update_bytes()))
        groups = [clients[i : i + together] for i in range(0, len(clients), together)]
        message = self._ray.put(packed(received))

        def submit(number: int) -> Any:
            states = packed([self.states.load(client) for client in groups[number]])
            return self._train.remote([self._job, message], groups[number], states)

        for group in self._in_order(len(groups), submit):
            for update, state in group:
                self.states.save(update.client, received.round, state)
                yield update

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        parts = chunks(self.job, where)
        together = max(1, len(models) * len(parts) // (_SHARES * self._cores()))
        tasks = [
            (model, parts[i : i + together])
            for model in range(len(models))
            for i in range(0, len(parts), together)
        ]
        # One model at a time: a round may have hundreds.
        stored: dict[int, Any] = {}

        def submit(number: int) -> Any:
            model, share = tasks[number]
            if model not in stored:
                stored.clear()
                stored[model] = self._ray.put(packed(models[model]))
            return self._evaluate.remote([self._job, stored[model]], share)

        found: list[list[Predictions]] = [[] for _ in models]
        for (model, _), predictions in zip(tasks, self._in_order(len(tasks), submit), strict=True):
            found[model] += predictions
        return [joined(predictions) for predictions in found]

    def close(self) -> None:
        # Ray's shutdown ends the Ray that `_connect` started, and only leaves one that was there before.
        if self._connected and self._ray.is_initialized():
            self._ray.shutdown()

    def _in_order(self, count: int, submit: Submit) -> Iterator[Any]:
        """Give out tasks and give back their results in the order of the tasks."""
        ray = self._ray
        ahead, limit = _AHEAD * self._cores(), self._limit or count
        running: dict[Any, int] = {}
        done: dict[int, Packed] = {}
        losses: Counter[int] = Counter()
        begun = given = 0
        try:
            while given < count:
                while begun < min(count, given + ahead) and len(running) < limit:
                    running[submit(begun)] = begun
                    begun += 1
                ready, _ = ray.wait(list(running), timeout=_PATIENCE)
                if not ready:
                    self._cores()
                for reference in ready:
                    number = running.pop(reference)
                    try:
                        done[number] = ray.get(reference)
                    except ray.exceptions.RayError as error:
                        losses[number] += 1
                        if losses[number] == _LOSSES_ALLOWED:
                            first = str(error).strip().splitlines()[0]
                            raise RunFailed(f"Ray lost a task {losses[number]} times: {first}") from error
                        running[submit(number)] = number
                while given in done:
                    kind, result = unpacked(done.pop(given))
                    if kind == "error":
                        raise result
                    yield result
                    given += 1
        finally:
            # Left in the middle: these results are of no use any more.
            for reference in running:
                with suppress(ray.exceptions.RayError):
                    ray.cancel(reference)

    def _cores(self) -> int:
        cores = int(self._ray.cluster_resources().get("CPU", 0))
        if cores < 1:
            raise RunFailed("the Ray cluster has no core to train on; resume when a node has joined it")
        return cores

    def _update_bytes(self) -> int:
        weights, uploads = self.job.model.weights, self.job.method.uploads(self.job.setting)
        lanes = (weights.parameters, weights.floats, weights.integers)
        extra = sum(upload.size for upload in uploads.values()) * weights.parameters.itemsize
        return sum(lane.numel() * lane.itemsize for lane in lanes) + extra


def _connect(address: str, workers: int | None) -> None:
    import ray

    cores = {"num_cpus": workers or len(os.sched_getaffinity(0))} if address == "local" else {}
    with _same_handler(signal.SIGTERM):
        try:
            ray.init(address, include_dashboard=False if cores else None, logging_level="ERROR", **cores)
        except (ConnectionError, RuntimeError, ValueError) as error:
            first = str(error).strip().splitlines()[0]
            raise InputError(f"cannot use Ray at {address!r}: {first}") from error


@contextmanager
def _same_handler(number: int) -> Iterator[None]:
    """Leave a signal's handler as it is; Ray sets one of its own."""
    before = signal.getsignal(number)
    yield
    with suppress(ValueError):  # Not the main thread, in which alone handlers are set.
        signal.signal(number, before)


# The rest happens in Ray's workers.

# The job and the last message that this process has received, by their references.
_received: dict[str, tuple[str, Any]] = {}


def _receive(place: str, reference: Any, copy: bool) -> Any:
    import ray

    key = reference.hex()
    if place not in _received or _received[place][0] != key:
        _received[place] = key, unpacked(ray.get(reference), copy)
    return _received[place][1]


def _train(references: list[Any], clients: Sequence[int], states: Packed) -> Packed:
    """Train a few clients; give their updates and their new states."""

    def work() -> list[Any]:
        job = _receive("job", references[0], copy=False)
        received: Received = _receive("message", references[1], copy=True)
        results = []
        for client, state in zip(clients, unpacked(states), strict=True):
            with noting(client, received.round):
                results.append(train_client(job, client, received, state))
        return results

    return _answer(work)


def _evaluate(references: list[Any], parts: Sequence[Rows]) -> Packed:
    """What a model says of a few chunks."""

    def work() -> list[Predictions]:
        job = _receive("job", references[0], copy=False)
        weights = _receive("message", references[1], copy=True)
        return [evaluate_chunk(job, weights, part) for part in parts]

    return _answer(work)


def _answer(work: Callable[[], Any]) -> Packed:
    from ray import cloudpickle
    from ray.exceptions import RayError

    torch.set_num_threads(1)
    try:
        return packed(("results", work()))
    except RayError:
        raise
    except Exception as error:
        return packed(("error", portable(error, cloudpickle)))

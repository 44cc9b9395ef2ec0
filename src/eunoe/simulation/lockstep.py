"""Runs in lockstep: clients of many runs train as one stack, and their models are evaluated as one batch.

Each run is an ordinary run, in a greenlet, that stops where its clients are to be trained or a model is to be
evaluated. When all have stopped, the clients of all runs of the same structure train at once, each with its
own weights, data and numbers. A run that ends or diverges leaves the others as they are.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import torch
from greenlet import greenlet
from torch import Tensor
from torch.func import vmap

from eunoe.core.fields import Fields
from eunoe.core.flat_model import Weights
from eunoe.engines.client_states import ClientStates
from eunoe.engines.simulation import Simulation
from eunoe.engines.vectorized.dense import dense_layers
from eunoe.engines.vectorized.engine import Vectorized
from eunoe.engines.vectorized.stack import StackClient
from eunoe.engines.vectorized.stacks import Trained
from eunoe.errors import Diverged
from eunoe.metrics.base import Predictions, Rows
from eunoe.simulation.running import OnRound, PreparedRun, execute
from eunoe.simulation.structure import Group, structure
from eunoe.system.signals import interruptible


class Train(NamedTuple):
    """A request to train clients."""

    members: Sequence[StackClient]


class Evaluate(NamedTuple):
    """A request to evaluate models on samples."""

    models: Sequence[Weights]
    where: Rows


class Strand:
    """A run as a coroutine, which pauses at each request until it is answered."""

    def __init__(self, title: str) -> None:
        self.title = title
        self.work: Callable[[], object] = lambda: None
        self.request: Train | Evaluate | None = None
        self.error: BaseException | None = None
        self._run, self._caller = greenlet(self._work), greenlet.getcurrent()
        # Time that other runs have used.
        self._others, self._asked = 0.0, time.monotonic()

    def _work(self, _: Any) -> None:
        try:
            with suppress(Diverged):
                self.work()
        except BaseException as error:  # Raised again when all runs have ended.
            self.error = error

    def ask(self, request: Train | Evaluate) -> Any:
        """Wait for the answer to a request; called by the run."""
        self.request, self._asked = request, time.monotonic()
        answer = self._caller.switch()
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def resume(self, answer: Any = None, seconds: float = 0.0) -> None:
        """Let the run continue until its next request or its end; the answer took it so many seconds."""
        self._others += time.monotonic() - self._asked - seconds
        self.request, self._caller = None, greenlet.getcurrent()
        # In log records.
        threading.current_thread().name = self.title
        self._run.switch(answer)

    def clock(self) -> float:
        """Return the seconds of this run alone."""
        return time.monotonic() - self._others


class LockstepEngine(Vectorized):
    """The engine of a run in lockstep: its requests are answered together with those of other runs."""

    def __init__(self, prepared: PreparedRun, strand: Strand, runs: int) -> None:
        simulation = prepared.simulation
        states = ClientStates(prepared.folder / "states", device=simulation.model.device)
        super().__init__(simulation, states, prepared.config.engine.options.get("cohort"))
        self.strand, self.environment = strand, {"lockstep": runs}

    def take_steps(self, members: Sequence[StackClient]) -> list[Trained]:
        return self.strand.ask(Train(members))

    def evaluate(self, models: Sequence[Weights], where: Rows) -> list[Predictions]:
        own = where.owners is not None and (where.prior or self.simulation.federation.shift is not None)
        if own or not len(where.rows) or not models:
            return super().evaluate(models, where)
        return self.strand.ask(Evaluate(models, where))

    def clock(self) -> float:
        return self.strand.clock()


@dataclass
class Member:
    """A run in lockstep."""

    strand: Strand
    engine: LockstepEngine
    group: Group


def run_in_lockstep(runs: Sequence[tuple[str, PreparedRun, OnRound]]) -> None:
    """Execute runs, given by title, in lockstep.

    A run that diverges ends by itself. Any other error, an interrupt included, ends all after their round,
    so that they can be resumed; then it is raised.
    """
    interrupt, errors = threading.Event(), list[BaseException]()
    # Signals reach this thread and no run, whatever it is doing.
    thread = threading.Thread(target=_run_all, args=(runs, interrupt, errors), daemon=True)
    with interruptible():
        thread.start()
        while thread.is_alive():
            try:
                thread.join()
            except KeyboardInterrupt as error:
                if interrupt.is_set():
                    raise
                errors.append(error)
                interrupt.set()
    if errors:
        raise errors[0]


def _run_all(
    runs: Sequence[tuple[str, PreparedRun, OnRound]], interrupt: threading.Event, errors: list[BaseException]
) -> None:
    """Run to the end or, after an error or interrupt, to the end of each run's round; collect the errors."""
    try:
        by_structure: dict[Any, list[Simulation]] = {}
        keys = [structure(prepared) for _, prepared, _ in runs]
        for key, (_, prepared, _) in zip(keys, runs, strict=True):
            by_structure.setdefault(key, []).append(prepared.simulation)
        groups = {key: Group(simulations) for key, simulations in by_structure.items()}
        members = []
        for key, (title, prepared, on_round) in zip(keys, runs, strict=True):
            strand = Strand(title)
            engine = LockstepEngine(prepared, strand, len(runs))
            strand.work = partial(execute, prepared, on_round, engine)
            members.append(Member(strand, engine, groups[key]))
        for member in members:
            member.strand.resume()
        while waiting := [member for member in members if member.strand.request is not None]:
            errors += [m.strand.error for m in members if m.strand.error is not None and not errors]
            evaluating = [m for m in waiting if isinstance(m.strand.request, Evaluate)]
            if evaluating:
                _answer(evaluating, _evaluate)
            elif errors or interrupt.is_set():
                for member in waiting:
                    member.strand.resume(KeyboardInterrupt())
            else:
                _answer(waiting, _train)
        errors += [member.strand.error for member in members if member.strand.error is not None]
    except BaseException as error:  # Raised again in the thread that waits.
        errors.append(error)


def _answer(members: Sequence[Member], work: Callable[[Sequence[Member]], list[tuple[Any, float]]]) -> None:
    """Answer the requests of runs together by structure; an error is the answer to all that share it."""
    groups: dict[int, list[Member]] = {}
    for member in members:
        groups.setdefault(id(member.group), []).append(member)
    for group in groups.values():
        started, answers = time.monotonic(), list[tuple[Any, float]]()
        try:
            answers = work(group)
        except Exception as error:
            answers = [(error, 1.0) for _ in group]
        seconds, total = time.monotonic() - started, sum(share for _, share in answers)
        for member, (answer, share) in zip(group, answers, strict=True):
            member.strand.resume(answer, seconds * share / total)


def _train(members: Sequence[Member]) -> list[tuple[Any, float]]:
    """Return the trained clients of each run, and its share of the work."""
    requests = [list(m.strand.request.members) for m in members if isinstance(m.strand.request, Train)]
    everybody = [client for clients in requests for client in clients]
    trained = iter(members[0].group.train(everybody, min(member.engine.cohort for member in members)))
    return [([next(trained) for _ in group], float(sum(sum(c.lengths) for c in group))) for group in requests]


def _evaluate(members: Sequence[Member]) -> list[tuple[Any, float]]:
    """Return the predictions for each run, and its share of the work."""
    requests = [(m.engine.simulation, m.strand.request) for m in members]
    by_set: dict[int, list[tuple[Simulation, Evaluate]]] = {}
    for simulation, request in requests:
        assert isinstance(request, Evaluate)
        samples = simulation.federation.samples(request.where.source)
        by_set.setdefault(id(samples), []).append((simulation, request))
    results: dict[int, list[Predictions]] = {}
    for chosen in by_set.values():
        models = [model for _, request in chosen for model in request.models]
        sets = [request.where for _, request in chosen for _ in request.models]
        done = iter(evaluate_together(chosen[0][0], models, sets))
        results |= {id(request): [next(done) for _ in request.models] for _, request in chosen}
    return [(results[id(request)], float(len(results[id(request)]))) for _, request in requests]


def evaluate_together(
    simulation: Simulation, models: Sequence[Weights], sets: Sequence[Rows]
) -> list[Predictions]:
    """Return the predictions of each model on its own rows, which are of one set of samples."""
    first = sets[0]
    lengths = np.array([len(where.rows) for where in sets])
    shared = all(np.array_equal(where.rows, first.rows) for where in sets[1:])
    rows = np.zeros((1 if shared else len(sets), lengths.max()), np.int64)
    for row, where in zip(rows, sets, strict=False):
        row[: len(where.rows)] = where.rows
    vectors = [weights.vectors() for weights in models]
    stacked = Weights(**{name: torch.stack([own[name] for own in vectors]) for name in vectors[0]})
    parts = [
        _evaluate_part(simulation, stacked, first, torch.from_numpy(part), lengths - start)
        for start in range(0, rows.shape[1], simulation.evaluation_chunk)
        for part in [rows[:, start : start + simulation.evaluation_chunk]]
    ]
    predicted, losses, logits = (np.concatenate([p[k].numpy() for p in parts], axis=1) for k in (0, 1, 2))
    probability = np.sum([part[3].numpy() for part in parts], axis=0)
    return [
        Predictions(predicted[k, :n], losses[k, :n], probability[k], logits[k, :n] if where.logits else None)
        for k, (n, where) in enumerate(zip(lengths, sets, strict=True))
    ]


def _evaluate_part(
    simulation: Simulation, weights: Weights, where: Rows, rows: Tensor, lengths: np.ndarray
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return predictions, losses and logits [models, rows, ...], and sums of probabilities by model."""
    model, federation, count = simulation.model, simulation.federation, len(weights.parameters)
    x = federation.inputs(where.source, rows.reshape(-1))
    if len(rows) > 1:
        x = x.unflatten(0, rows.shape) if isinstance(x, Fields) else x.reshape(*rows.shape, *x.shape[1:])
    buffers = [v if v.numel() else None for v in (weights.float_buffers, weights.int_buffers)]
    dimensions = (0, 0 if len(rows) > 1 else None, *(None if v is None else 0 for v in buffers))
    dense, x, parameters = dense_layers(model), x.to(model.device), weights.parameters.to(model.device)
    with model.evaluating(), torch.no_grad():
        if dense is not None and isinstance(x, Tensor):
            flat = x.flatten(2) if len(rows) > 1 else x.flatten(1).expand(count, -1, -1)
            outputs = dense.logits(dense.split(parameters), flat)[-1]
        else:
            outputs = vmap(model.forward_at, dimensions)(parameters, x, *buffers).transpose(1, 2)
    # Classes before samples: a softmax over few adjacent numbers is slow.
    logits = outputs.cpu().double().contiguous()
    labels = federation.samples(where.source).y[rows].expand(count, -1, *federation.data.train.y.shape[1:])
    labels, task = labels.transpose(1, -1) if labels.ndim > 2 else labels, federation.task
    real = torch.arange(rows.shape[1]) < torch.from_numpy(lengths)[:, None]
    predicted = task.predict(logits)
    return (
        predicted if predicted.ndim == 2 else predicted.transpose(1, 2),
        task.losses(logits, labels),
        logits.transpose(1, 2),
        (task.probabilities(logits) * real[:, None]).sum(2),
    )

"""Many clients at once in this process: a cohort is a matrix with a row per client, trained under vmap.

For small models, where Python costs more than arithmetic, this is several times faster than one client
after the other. Results differ from the other engines in the last bits, since sums are formed in
another order. What cannot be vectorised trains one client after the other, and that is said.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.func import vmap

from eunoe.core.flat_model import Weights
from eunoe.core.optimizer import descend
from eunoe.core.rng import global_stream
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial, train_and_keep
from eunoe.engines.vectorized.cohort import Cohort
from eunoe.engines.vectorized.compiled import Compiled
from eunoe.engines.vectorized.inside import Inside, Stage, Watched, local_inside, masked_mean
from eunoe.errors import first_line
from eunoe.methods.base import Finished, Method, Vectors
from eunoe.methods.client_context import Batch, Local
from eunoe.methods.context import Setting
from eunoe.training.client import Received, Update, make_local
from eunoe.training.simulation import Job

T = TypeVar("T")

# Parameters of all of a cohort's models together, and the most clients, by the engine benchmark.
_PARAMETERS, _CLIENTS = 2_000_000, 256
# Above this many parameters the arithmetic dominates, so that no work is done only to keep shapes.
_SMALL = 100_000


def cohort_of(parameters: int) -> int:
    """How many clients of a model with so many parameters train at once."""
    return max(2, min(_CLIENTS, _PARAMETERS // parameters))


class Vectorised(Serial):
    """A cohort of clients at a time; evaluation is that of the serial engine."""

    def __init__(
        self, job: Job, states: ClientStates, cohort: int | None = None, say: Callable[[str], None] = print
    ) -> None:
        super().__init__(job, states)
        model, kind = job.model, type(job.method)
        self.cohort = cohort or cohort_of(model.parameters.numel())
        self._say, self._said = say, set[str]()
        self._serial = _why_serial(job)
        self._has_buffers = bool(model.floats.numel() or model.integers.numel()) or job.setting.has_batch_norm
        self._terms_checked = False
        self._own_step = kind.step is not Method.step
        self._needs_local = kind.begin is not Method.begin or kind.finish is not Method.finish
        self._exact = self._has_buffers or self._own_step or model.parameters.numel() > _SMALL
        self._setting = Watched.like(job.setting)
        # Recording costs as much as some hundred steps save, and a participation has one loss for many steps.
        self._gradients = Compiled(model.module, lambda: self._setting.noticed, calls_before=100)
        self._losses = Compiled(model.module, lambda: self._setting.noticed, calls_before=10)
        # Samples of a batch that went forwards and backwards in one step, as a multiple of the batch.
        self._passes = (0.0, 0.0)

    def train(self, clients: Sequence[int], received: Received) -> Iterator[Update]:
        received = received.to(self.job.model.device)
        for first in range(0, len(clients), self.cohort):
            yield from self._train(clients[first : first + self.cohort], received)

    def _train(self, clients: Sequence[int], received: Received) -> Iterator[Update]:
        job, training = self.job, self.job.setting.training
        skipped = {
            client
            for client in (clients if training.unlearnable == "skip" else ())
            if not job.loss.learns_from(job.loss_counts(client))
        }
        together = [client for client in clients if client not in skipped]
        done: dict[int, tuple[Update, Vectors]] = {}
        if self._serial is None and together:
            setting = job.setting_in(received.round)
            cohort = Cohort.plan(job, setting, together, self._exact)
            if self._has_buffers and not cohort.equal:
                self._tell("batch normalisation needs batches of equal size")
            else:
                try:
                    done = self._train_cohort(cohort, setting, received)
                except Exception as error:
                    # If the fault is not vmap's, training alone will show it with its client.
                    self._serial = f"this could not be vectorised ({first_line(error)})"
        if self._serial is not None:
            self._tell(self._serial)
        for client in clients:
            if client in done:
                update, state = done.pop(client)
                self.states.save(client, received.round, state)
                yield update
            else:
                yield train_and_keep(self, client, received)

    def _train_cohort(
        self, cohort: Cohort, setting: Setting, received: Received
    ) -> dict[int, tuple[Update, Vectors]]:
        job, model = self.job, self.job.model
        self._setting = Watched.like(setting)
        start = received.weights
        with torch.random.fork_rng(devices=[]):
            begun = self._begin(cohort, setting, received) if self._needs_local else []
            locals = [local for local, _ in begun]
            model.load(start)
            model.module.train()
            weights = start.parameters.repeat(len(cohort), 1)
            floats, integers = (lane.repeat(len(cohort), 1) for lane in (start.floats, start.integers))
            buffers = {
                name: lane for name, lane in (("floats", floats), ("integers", integers)) if lane.numel()
            }
            stage = Stage.of(received, {**self._rows(cohort), **buffers}, locals, cohort.longest)
            before, first, moments = self._steps(cohort, stage, weights)
            after = self._loss_after(stage, weights, first)
            results = {}
            for k, client in enumerate(cohort.clients):
                lanes, finished = Weights(weights[k], floats[k], integers[k]), Finished()
                if locals:
                    model.load(lanes)
                    locals[k].taken = cohort.steps[k]
                    locals[k].moments = {name: moment[k] for name, moment in moments.items()}
                    torch.set_rng_state(begun[k][1])
                    finished = job.method.finish(locals[k])
                    lanes = model.weights.copy()
                forwards, backwards = (round(passes * cohort.samples[k]) for passes in self._passes)
                update = Update(
                    client,
                    int(job.federation.sizes[client]),
                    lanes.to("cpu"),
                    {name: value.detach().cpu() for name, value in finished.uploads.items()},
                    cohort.steps[k],
                    before[k],
                    after[k],
                    forwards + (locals[k].forwards if locals else 0),
                    backwards + (locals[k].backwards if locals else 0),
                )
                results[client] = update, finished.state
        return results

    def _begin(self, cohort: Cohort, setting: Setting, received: Received) -> list[tuple[Local, Tensor]]:
        """The clients, each with where its stream of torch's global generator has got to."""
        job, begun = self.job, []
        for client, steps in zip(cohort.clients, cohort.steps, strict=True):
            with global_stream(job.model.device, setting.seed, "model", received.round, client):
                job.model.load(received.weights)
                job.model.module.train()
                local = make_local(job, setting, client, received, self.states.load(client), steps)
                job.method.begin(local)
                begun.append((local, torch.get_rng_state()))
        return begun

    def _rows(self, cohort: Cohort) -> Vectors:
        """What every cohort has of each client: its label counts and numbers."""
        job, device = self.job, self.job.model.device
        training, counts, told = job.setting.training, cohort.counts, cohort.loss_counts
        sizes = torch.from_numpy(job.federation.sizes[cohort.clients])
        rows = {
            "counts": counts,
            "terms": self._terms(told),
            "client": torch.tensor(cohort.clients),
            "size": sizes,
            "steps": torch.tensor(cohort.steps),
        }
        if training.unlearnable == "no_decay" and training.weight_decay:
            learns = torch.tensor([job.loss.learns_from(own) for own in told]).to(counts)
            rows["weight decay"] = learns * training.weight_decay
        return {name: value.to(device) for name, value in rows.items()}

    def _terms(self, counts: Tensor) -> Tensor:
        """What the loss makes of every client's counts, the first of them looked at alone too, once."""
        loss = self.job.loss
        terms = loss.terms(counts)
        if not self._terms_checked and len(counts) > 1:
            if not torch.allclose(terms[0], loss.terms(counts[0]), equal_nan=True):
                raise RuntimeError("the loss's terms(counts) must look at each row of the counts by itself")
            self._terms_checked = True
        return terms

    def _steps(self, cohort: Cohort, stage: Stage, weights: Tensor) -> tuple[list[float], Batch, Vectors]:
        """All steps of a cohort, on its weights; give the losses before, the first batch and the moments."""
        training, lr = self.job.setting.training, vars(self._setting)["lr"]
        decay = stage.rows["weight decay"][:, None] if "weight decay" in stage.rows else training.weight_decay
        moments: Vectors = {}
        before, first = [], None
        level, vectors = 0, stage.first(len(cohort))
        for taken, (active, batch) in enumerate(zip(cohort.active, cohort.batches(), strict=True), 1):
            if len(batch.y) != level:
                level = len(batch.y)
                vectors = stage.first(level)
            here, own = weights[:active], {name: moment[:active] for name, moment in moments.items()}
            if self._own_step:
                loss, found = self._step(stage, here, batch, vectors, own, taken)
                for name, value in found.items():
                    # A step may have put another tensor in a moment's place.
                    if name not in moments:
                        moments[name] = value.new_zeros(len(cohort), *value.shape[1:])
                    moments[name][:active] = value
            else:
                gradients, loss = self._gradient(stage, weights[:level], batch, vectors, taken)
                own_decay = decay[:active] if isinstance(decay, Tensor) else decay
                descend(here, gradients[:active], training, lr, own_decay, own, taken)
                moments = moments or own
            if taken == 1:
                before, first = loss.tolist(), batch
        assert first is not None
        return before, first, moments

    def _gradient(
        self, stage: Stage, weights: Tensor, batch: Batch, vectors: Vectors, taken: int
    ) -> tuple[Tensor, Tensor]:
        """The clients' corrected gradients and losses."""
        method = self.job.method

        def one(local: Inside, batch: Batch) -> tuple[Tensor, Tensor]:
            local.taken = taken - 1
            # The optimiser's moments stay outside: a method that asks for them trains serially.
            del local.moments
            gradient = local.gradient(lambda: method.loss(local, batch), batch)
            return method.correct(local, gradient), _known(local.last_loss, local.weights)

        return self._call(one, stage, weights, batch, vectors, self._gradients)

    def _loss_after(self, stage: Stage, weights: Tensor, batch: Batch) -> list[float]:
        """The clients' losses on a batch as their first step saw it, leaving no trace in their statistics."""

        def one(local: Inside, batch: Batch) -> Tensor:
            return masked_mean(self.job.method.loss(local, batch), batch.mask)

        passes, vectors = self._passes, stage.first(len(weights))
        vectors |= {name: vectors[name].clone() for name in ("floats", "integers") if name in vectors}
        with torch.no_grad():
            losses = self._call(one, stage, weights, batch, vectors, self._losses)
        self._passes = passes
        return [float(loss) for loss in losses.tolist()]

    def _step(
        self, stage: Stage, weights: Tensor, batch: Batch, vectors: Vectors, moments: Vectors, taken: int
    ) -> tuple[Tensor, Vectors]:
        """A step of a method that has its own, on the weights; give the losses and the moments."""

        def one(local: Inside, batch: Batch) -> tuple[Tensor, Vectors]:
            local.taken = taken - 1
            local.moments = {name: local.own[f"moment {name}"] for name in moments}
            self.job.method.step(local, batch)
            return _known(local.last_loss, local.weights), local.moments

        own = {f"own moment {name}": value for name, value in moments.items()}
        extended = Stage({**own, **stage.rows}, stage.common, stage.networks)
        return self._call(one, extended, weights, batch, {**own, **vectors})

    def _call(
        self,
        function: Callable[[Inside, Batch], T],
        stage: Stage,
        weights: Tensor,
        batch: Batch,
        vectors: Vectors,
        compiled: Compiled | None = None,
    ) -> T:
        """A function of one client and its batch, for every client that has a row in the weights."""
        names, setting = tuple(vectors), self._setting
        given = [weights, batch.x, batch.y, batch.index, *([] if batch.mask is None else [batch.mask])]

        def one(*tensors: Tensor) -> T:
            weights, x, y, index, *mask = tensors[: len(given)]
            named = dict(zip(names, tensors[len(given) :], strict=True))
            local = local_inside(self.job, setting, stage, weights, named)
            result = function(local, Batch(x, y, index, mask[0] if mask else None))
            self._passes = local.forwards / len(y), local.backwards / len(y)
            return result

        dimensions = (*(0 for _ in given), *stage.dimensions())
        if compiled is None or self._exact:
            return vmap(one, dimensions)(*given, *vectors.values())
        return compiled(one, names, dimensions, *given, *vectors.values())

    def _tell(self, reason: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            self._say(f"warning: clients train one after the other: {reason}")


def _known(loss: Tensor | None, weights: Tensor) -> Tensor:
    return weights.new_full((), float("nan")) if loss is None else loss


def _why_serial(job: Job) -> str | None:
    """Why no client of a job can be vectorised, or None."""
    if not job.method.vectorises:
        return f"the method {type(job.method).__name__} does not vectorise"
    random = (nn.modules.dropout._DropoutNd, nn.RReLU)
    if any(isinstance(module, random) for module in job.model.module.modules()):
        return "the model draws random numbers (dropout)"
    return None

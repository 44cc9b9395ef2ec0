"""Many clients at once in this process: a cohort is a matrix with a row per client, trained under vmap.

For small models, where Python costs more than arithmetic, this is several times faster than one client
after the other. Results differ from the other engines in the last bits, since sums are formed in
another order. What cannot be vectorized trains one client after the other, and that is said.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch
from torch import Tensor, nn
from torch.func import vmap

from eunoe.core.flat_model import Vectors, Weights
from eunoe.core.optimizer import descend
from eunoe.core.rng import global_stream
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial, train_and_keep
from eunoe.engines.vectorized.cohort import Cohort
from eunoe.engines.vectorized.compiled import Compiled
from eunoe.engines.vectorized.inside import Inside, Stage, Watched, local_inside, masked_mean
from eunoe.errors import first_line
from eunoe.methods.base import Finished, Method
from eunoe.methods.client_context import Batch, ClientContext
from eunoe.methods.context import RoundContext
from eunoe.training.client import Broadcast, Update, make_client_context
from eunoe.training.simulation import Simulation

T = TypeVar("T")

# Parameters of all of a cohort's models together, and the most clients, by the engine benchmark.
_PARAMETERS, _CLIENTS = 2_000_000, 256
# Above this many parameters the arithmetic dominates, so that no work is done only to keep shapes.
_SMALL = 100_000


def cohort_of(parameters: int) -> int:
    """How many clients of a model with so many parameters train at once."""
    return max(2, min(_CLIENTS, _PARAMETERS // parameters))


class Vectorized(Serial):
    """A cohort of clients at a time; evaluation is that of the serial engine."""

    def __init__(
        self,
        simulation: Simulation,
        states: ClientStates,
        cohort: int | None = None,
        say: Callable[[str], None] = print,
    ) -> None:
        super().__init__(simulation, states)
        model, kind = simulation.model, type(simulation.method)
        self.cohort = cohort or cohort_of(model.parameters.numel())
        self._say, self._said = say, set[str]()
        self._serial = _why_serial(simulation)
        self._has_buffers = (
            bool(model.float_buffers.numel() or model.int_buffers.numel())
            or simulation.context.has_batch_norm
        )
        self._terms_checked = False
        self._own_step = kind.step is not Method.step
        self._needs_local = kind.begin is not Method.begin or kind.finish is not Method.finish
        self._exact = self._has_buffers or self._own_step or model.parameters.numel() > _SMALL
        self._setting = Watched.like(simulation.context)
        # Recording costs as much as some hundred steps save, and a participation has one loss for many steps.
        self._gradients = Compiled(model.module, lambda: self._setting.noticed, calls_before=100)
        self._losses = Compiled(model.module, lambda: self._setting.noticed, calls_before=10)
        # Samples of a batch that went forwards and backwards in one step, as a multiple of the batch.
        self._passes = (0.0, 0.0)

    def train(self, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        broadcast = broadcast.to(self.simulation.model.device)
        for first in range(0, len(clients), self.cohort):
            yield from self._train(clients[first : first + self.cohort], broadcast)

    def _train(self, clients: Sequence[int], broadcast: Broadcast) -> Iterator[Update]:
        simulation, training = self.simulation, self.simulation.context.training
        skipped = {
            client
            for client in (clients if training.single_class == "skip" else ())
            if not simulation.loss.learns_from(simulation.loss_counts(client))
        }
        together = [client for client in clients if client not in skipped]
        done: dict[int, tuple[Update, Vectors]] = {}
        if self._serial is None and together:
            context = simulation.context_in(broadcast.round)
            cohort = Cohort.plan(simulation, context, together, self._exact)
            if self._has_buffers and not cohort.equal:
                self._tell("batch normalization needs batches of equal size")
            else:
                try:
                    done = self._train_cohort(cohort, context, broadcast)
                except Exception as error:
                    # If the fault is not vmap's, training alone will show it with its client.
                    self._serial = f"this could not be vectorized ({first_line(error)})"
        if self._serial is not None:
            self._tell(self._serial)
        for client in clients:
            if client in done:
                update, state = done.pop(client)
                self.states.save(client, broadcast.round, state)
                yield update
            else:
                yield train_and_keep(self, client, broadcast)

    def _train_cohort(
        self, cohort: Cohort, context: RoundContext, broadcast: Broadcast
    ) -> dict[int, tuple[Update, Vectors]]:
        simulation, model = self.simulation, self.simulation.model
        self._setting = Watched.like(context)
        start = broadcast.weights
        with torch.random.fork_rng(devices=[]):
            begun = self._begin(cohort, context, broadcast) if self._needs_local else []
            client_contexts = [client_context for client_context, _ in begun]
            model.load(start)
            model.module.train()
            weights = start.parameters.repeat(len(cohort), 1)
            float_buffers, int_buffers = (
                lane.repeat(len(cohort), 1) for lane in (start.float_buffers, start.int_buffers)
            )
            buffers = {
                name: lane
                for name, lane in (("float_buffers", float_buffers), ("int_buffers", int_buffers))
                if lane.numel()
            }
            stage = Stage.of(broadcast, {**self._rows(cohort), **buffers}, client_contexts, cohort.longest)
            before, first, moments = self._steps(cohort, stage, weights)
            after = self._loss_after(stage, weights, first)
            results = {}
            for k, client in enumerate(cohort.clients):
                lanes, finished = Weights(weights[k], float_buffers[k], int_buffers[k]), Finished()
                if client_contexts:
                    model.load(lanes)
                    client_contexts[k].steps_taken = cohort.steps[k]
                    client_contexts[k].moments = {name: moment[k] for name, moment in moments.items()}
                    torch.set_rng_state(begun[k][1])
                    finished = simulation.method.finish(client_contexts[k])
                    lanes = model.weights.copy()
                forwards, backwards = (round(passes * cohort.samples[k]) for passes in self._passes)
                update = Update(
                    client,
                    int(simulation.federation.sizes[client]),
                    lanes.to("cpu"),
                    {name: value.detach().cpu() for name, value in finished.uploads.items()},
                    cohort.steps[k],
                    before[k],
                    after[k],
                    forwards + (client_contexts[k].forwards if client_contexts else 0),
                    backwards + (client_contexts[k].backwards if client_contexts else 0),
                )
                results[client] = update, finished.state
        return results

    def _begin(
        self, cohort: Cohort, context: RoundContext, broadcast: Broadcast
    ) -> list[tuple[ClientContext, Tensor]]:
        """The clients, each with where its stream of torch's global generator has got to."""
        simulation, begun = self.simulation, []
        for client, steps in zip(cohort.clients, cohort.steps, strict=True):
            with global_stream(simulation.model.device, context.seed, "model", broadcast.round, client):
                simulation.model.load(broadcast.weights)
                simulation.model.module.train()
                client_context = make_client_context(
                    simulation, context, client, broadcast, self.states.load(client), steps
                )
                simulation.method.begin(client_context)
                begun.append((client_context, torch.get_rng_state()))
        return begun

    def _rows(self, cohort: Cohort) -> Vectors:
        """What every cohort has of each client: its label counts and numbers."""
        simulation, device = self.simulation, self.simulation.model.device
        training, counts, told = simulation.context.training, cohort.counts, cohort.loss_counts
        sizes = torch.from_numpy(simulation.federation.sizes[cohort.clients])
        rows = {
            "counts": counts,
            "terms": self._terms(told),
            "id": torch.tensor(cohort.clients),
            "size": sizes,
            "steps": torch.tensor(cohort.steps),
        }
        if training.single_class == "no_decay" and training.weight_decay:
            learns = torch.tensor([simulation.loss.learns_from(own) for own in told]).to(counts)
            rows["weight decay"] = learns * training.weight_decay
        return {name: value.to(device) for name, value in rows.items()}

    def _terms(self, counts: Tensor) -> Tensor:
        """What the loss makes of every client's counts, the first of them looked at alone too, once."""
        loss = self.simulation.loss
        terms = loss.terms(counts)
        if not self._terms_checked and len(counts) > 1:
            if not torch.allclose(terms[0], loss.terms(counts[0]), equal_nan=True):
                raise RuntimeError("the loss's terms(counts) must look at each row of the counts by itself")
            self._terms_checked = True
        return terms

    def _steps(self, cohort: Cohort, stage: Stage, weights: Tensor) -> tuple[list[float], Batch, Vectors]:
        """All steps of a cohort, on its weights; give the losses before, the first batch and the moments."""
        training, lr = self.simulation.context.training, vars(self._setting)["lr"]
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
        method = self.simulation.method

        def one(client_context: Inside, batch: Batch) -> tuple[Tensor, Tensor]:
            client_context.steps_taken = taken - 1
            # The optimizer's moments stay outside: a method that asks for them trains serially.
            del client_context.moments
            gradient = client_context.gradient(lambda: method.loss(client_context, batch), batch)
            return method.correct(client_context, gradient), _known(
                client_context.last_loss, client_context.weights
            )

        return self._call(one, stage, weights, batch, vectors, self._gradients)

    def _loss_after(self, stage: Stage, weights: Tensor, batch: Batch) -> list[float]:
        """The clients' losses on a batch as their first step saw it, leaving no trace in their statistics."""

        def one(client_context: Inside, batch: Batch) -> Tensor:
            return masked_mean(self.simulation.method.loss(client_context, batch), batch.mask)

        passes, vectors = self._passes, stage.first(len(weights))
        vectors |= {
            name: vectors[name].clone() for name in ("float_buffers", "int_buffers") if name in vectors
        }
        with torch.no_grad():
            losses = self._call(one, stage, weights, batch, vectors, self._losses)
        self._passes = passes
        return [float(loss) for loss in losses.tolist()]

    def _step(
        self, stage: Stage, weights: Tensor, batch: Batch, vectors: Vectors, moments: Vectors, taken: int
    ) -> tuple[Tensor, Vectors]:
        """A step of a method that has its own, on the weights; give the losses and the moments."""

        def one(client_context: Inside, batch: Batch) -> tuple[Tensor, Vectors]:
            client_context.steps_taken = taken - 1
            client_context.moments = {name: client_context.state[f"moment {name}"] for name in moments}
            self.simulation.method.step(client_context, batch)
            return _known(client_context.last_loss, client_context.weights), client_context.moments

        own = {f"state moment {name}": value for name, value in moments.items()}
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
        names, context = tuple(vectors), self._setting
        given = [weights, batch.x, batch.y, batch.index, *([] if batch.mask is None else [batch.mask])]

        def one(*tensors: Tensor) -> T:
            weights, x, y, index, *mask = tensors[: len(given)]
            named = dict(zip(names, tensors[len(given) :], strict=True))
            client_context = local_inside(self.simulation, context, stage, weights, named)
            result = function(client_context, Batch(x, y, index, mask[0] if mask else None))
            self._passes = client_context.forwards / len(y), client_context.backwards / len(y)
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


def _why_serial(simulation: Simulation) -> str | None:
    """Why no client of a job can be vectorized, or None."""
    if not simulation.method.vectorizes:
        return f"the method {type(simulation.method).__name__} does not vectorize"
    random = (nn.modules.dropout._DropoutNd, nn.RReLU)
    if any(isinstance(module, random) for module in simulation.model.module.modules()):
        return "the model draws random numbers (dropout)"
    return None

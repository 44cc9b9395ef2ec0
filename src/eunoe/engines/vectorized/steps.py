"""The steps of a stack: gradients of all its clients at once, and the optimizer's updates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.func import vmap
from torch.utils._pytree import tree_map

from eunoe.core.fields import Input
from eunoe.core.flat_model import Vectors
from eunoe.core.optimizer import descend
from eunoe.engines.simulation import Simulation
from eunoe.engines.vectorized.dense import Dense, find_dense, first_rows
from eunoe.engines.vectorized.stack import ClientStack
from eunoe.engines.vectorized.step_context import (
    Inputs,
    NoMoments,
    Own,
    StepContext,
    make_step_context,
    masked_mean,
)
from eunoe.losses.base import Loss
from eunoe.losses.cross_entropy import CrossEntropy
from eunoe.methods.base import Method
from eunoe.methods.context import Batch, RoundContext

C = TypeVar("C", Method, Loss)


@dataclass(frozen=True)
class Taken:
    """The results of a stack's steps besides its weights."""

    # The loss of each client on its first batch, before the first step and after the last one.
    before: list[float]
    after: list[float]
    moments: Vectors
    # How often each sample of a batch went forwards and backwards in a step.
    forwards: float
    backwards: float


class Steps:
    """Takes the steps of stacks."""

    def __init__(self, simulation: Simulation) -> None:
        model = simulation.model
        self.simulation = simulation
        self.has_buffers = (
            bool(model.float_buffers.numel() or model.int_buffers.numel())
            or simulation.context.model.has_batch_norm
        )
        self._own_step = type(simulation.method).step is not Method.step
        self._dense = find_dense(simulation)
        self._passes = (0.0, 0.0)

    def take(
        self, stack: ClientStack, inputs: Inputs, networks: Mapping[str, bool], weights: Tensor
    ) -> Taken:
        """Take all steps of a stack, on its weights."""
        if self._dense is not None:
            return self._take_dense(self._dense, stack, inputs, weights)
        context = stack.simulation.context
        moments: Vectors = {}
        before, first = [], None
        here = inputs
        for taken, (active, batch) in enumerate(zip(stack.active, stack.batches(), strict=True)):
            if active != len(here.own.id):
                here = inputs.first(active)
            now = weights[:active]
            own = {name: moment[:active] for name, moment in moments.items()}
            if self._own_step:
                with_moments = Inputs(here.own._replace(moments=own), here.common)
                loss, new = self._apply(self._whole_step, context, networks, now, batch, with_moments, taken)
                for name, value in new.items():
                    # A step may have put another tensor in a moment's place.
                    if name not in moments:
                        moments[name] = value.new_zeros(len(stack), *value.shape[1:])
                    moments[name][:active] = value
            else:
                gradients, loss = self._apply(self._gradient, context, networks, now, batch, here, taken)
                decay, lr = here.own.weight_decay, here.own.options.get("lr")
                descend(
                    now,
                    gradients,
                    context.training,
                    context.lr if lr is None else lr[:, None],
                    decay[0][:, None] if decay else context.training.weight_decay,
                    own,
                    taken + 1,
                )
                moments = moments or own
            if first is None:
                before, first = loss.tolist(), batch
        assert first is not None
        after = self._loss_after(context, inputs, networks, weights, first)
        return Taken(before, after, moments, *self._passes)

    def _take_dense(self, dense: Dense, stack: ClientStack, inputs: Inputs, weights: Tensor) -> Taken:
        """Take the steps of linear layers without vmap."""
        context, own, before, first = stack.simulation.context, inputs.own, list[float](), None
        training, corrects = context.training, type(self.simulation.method).correct is not Method.correct
        terms = None if isinstance(self.simulation.loss, CrossEntropy) else own.terms
        lr = own.options["lr"][:, None] if "lr" in own.options else context.lr
        decay = own.weight_decay[0][:, None] if own.weight_decay else training.weight_decay
        decays, clips = isinstance(decay, Tensor) or decay != 0, training.clip is not None
        plain = not (corrects or clips or decays or training.momentum or training.optimizer != "sgd")
        parameters = dense.copy(weights) if plain else dense.split(weights)
        moments, here, level, client = Vectors(), parameters, len(stack), None
        for taken, (active, batch) in enumerate(zip(stack.active, stack.batches(), strict=True)):
            if first is None or active != level:
                level, own_terms = active, None if terms is None else terms[:active]
                here = first_rows(parameters, active)
                rate, own_decay = (v[:active] if isinstance(v, Tensor) else v for v in (lr, decay))
                now = weights[:active]
                client = self._matrix_context(context, inputs.first(active), now) if corrects else None
            if first is None:
                before, first = dense.losses(here, batch, own_terms).tolist(), batch
            if plain:
                dense.descend(here, batch, own_terms, rate)
                continue
            gradient = dense.gradient(here, batch, own_terms)
            if decays and training.optimizer != "adamw":
                gradient.add_(now * own_decay)
            if client is not None:
                method, client_context = client
                client_context.steps_taken = taken
                gradient = method.correct(client_context, gradient)
            own_moments = {name: moment[:active] for name, moment in moments.items()}
            descend(now, gradient, training, rate, own_decay, own_moments, taken + 1)
            moments = moments or own_moments
        assert first is not None
        after = dense.losses(parameters, first, terms).tolist()
        if plain:
            dense.join(parameters, weights)
        return Taken(before, after, moments, 1.0, 1.0)

    def _matrix_context(
        self, context: RoundContext, inputs: Inputs, weights: Tensor
    ) -> tuple[Method, StepContext]:
        """Return the method, and a client whose vectors are matrices and whose numbers are columns."""
        own: Own = tree_map(lambda value: value[:, None] if value.dim() == 1 else value, inputs.own)
        client = make_step_context(self.simulation, context, {}, weights, own, inputs.common, 0)
        client.moments = NoMoments()
        return with_options(self.simulation.method, "method", own.options), client

    def _loss_after(
        self, context: RoundContext, inputs: Inputs, networks: Mapping[str, bool], now: Tensor, batch: Batch
    ) -> list[float]:
        """Return the clients' losses on their first batch, without updating batch-norm statistics."""
        if inputs.own.buffers:
            buffers = {name: value.clone() for name, value in inputs.own.buffers.items()}
            inputs = Inputs(inputs.own._replace(buffers=buffers), inputs.common)
        with torch.no_grad():
            losses = self._apply(self._loss, context, networks, now, batch, inputs, 0)
        return [float(loss) for loss in losses.tolist()]

    def _apply(
        self,
        work: Callable[[Method, StepContext, Batch], Any],
        context: RoundContext,
        networks: Mapping[str, bool],
        weights: Tensor,
        batch: Batch,
        inputs: Inputs,
        steps_taken: int,
    ) -> Any:
        """Do the same work for all clients of a stack, under vmap."""

        def work_of_one(weights: Tensor, x: Input, y: Tensor, index: Tensor, mask: Any, own: Own) -> Any:
            simulation = self.simulation
            if own.options:
                simulation = replace(
                    simulation,
                    method=with_options(simulation.method, "method", own.options),
                    loss=with_options(simulation.loss, "loss", own.options),
                )
            client = make_step_context(
                simulation, context, networks, weights, own, inputs.common, steps_taken
            )
            return work(simulation.method, client, Batch(x, y, index, mask))

        dimensions = (0, 0, 0, 0, None if batch.mask is None else 0, 0)
        return vmap(work_of_one, dimensions)(weights, batch.x, batch.y, batch.index, batch.mask, inputs.own)

    def _gradient(self, method: Method, client: StepContext, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return a client's corrected gradient and its loss."""
        client.moments = NoMoments()
        gradient = client.gradient(lambda: method.loss(client, batch), batch)
        corrected = method.correct(client, gradient)
        self._count(client, batch)
        return corrected, client.known_loss

    def _whole_step(self, method: Method, client: StepContext, batch: Batch) -> tuple[Tensor, Vectors]:
        """Take the step of a method that has its own; return the loss and the moments."""
        method.step(client, batch)
        self._count(client, batch)
        return client.known_loss, client.moments

    def _loss(self, method: Method, client: StepContext, batch: Batch) -> Tensor:
        """Return a client's mean loss."""
        return masked_mean(method.loss(client, batch), batch.mask)

    def _count(self, client: StepContext, batch: Batch) -> None:
        self._passes = client.forwards / len(batch.y), client.backwards / len(batch.y)


def with_options(component: C, kind: str, options: Mapping[str, Tensor]) -> C:
    """Return a method or loss with these tensors in place of its numbers, which are named by its kind."""
    own = {name.removeprefix(f"{kind}."): v for name, v in options.items() if name.startswith(f"{kind}.")}
    return component.model_copy(update=own) if own else component

"""The steps of a stack: gradients of all its clients at once, and the optimizer's updates."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor

from eunoe.core.flat_model import Vectors
from eunoe.core.optimizer import descend
from eunoe.engines.simulation import Simulation
from eunoe.engines.vectorized.inputs import Common, Inputs, Own, StackStep, Step, StepNumbers
from eunoe.engines.vectorized.recording import Recorder
from eunoe.engines.vectorized.stack import ClientStack
from eunoe.engines.vectorized.step_context import NoMoments, StepContext, make_step_context, masked_mean
from eunoe.methods.base import Method
from eunoe.methods.client_context import Batch
from eunoe.methods.context import RoundContext

T = TypeVar("T")
# Above this many parameters arithmetic dominates, so shapes are not kept constant.
_SMALL = 100_000


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
    """Takes the steps of stacks, recording what it can."""

    def __init__(self, simulation: Simulation) -> None:
        model = simulation.model
        self.simulation = simulation
        self.has_buffers = (
            bool(model.float_buffers.numel() or model.int_buffers.numel())
            or simulation.context.model.has_batch_norm
        )
        self._own_step = type(simulation.method).step is not Method.step
        # Whether steps cover exactly the clients that have them; otherwise they are recorded.
        self.exact = self.has_buffers or self._own_step or model.parameters.numel() > _SMALL
        # Recording costs as much as a hundred steps save, and a participation measures few losses.
        self.gradients = Recorder(model.module, calls_before=100)
        self.losses = Recorder(model.module, calls_before=10)
        self._passes = (0.0, 0.0)

    def take(
        self,
        stack: ClientStack,
        inputs: Inputs,
        networks: Mapping[str, bool],
        weights: Tensor,
    ) -> Taken:
        """Take all steps of a stack, on its weights."""
        context = stack.context
        moments: Vectors = {}
        before, first = [], None
        here = inputs
        gradient = self._as_step(self._gradient, context, networks)
        whole_step = self._as_step(self._whole_step, context, networks)
        for taken, (active, batch) in enumerate(zip(stack.active, stack.batches(), strict=True)):
            if len(batch.y) != len(here.own.id):
                here = inputs.first(len(batch.y))
            numbers = StepNumbers(context.lr, context.round, taken)
            own = {name: moment[:active] for name, moment in moments.items()}
            if self._own_step:
                with_moments = Inputs(here.own._replace(moments=own), here.common)
                loss, new = StackStep(whole_step, weights[:active], batch, with_moments, numbers)()
                for name, value in new.items():
                    # A step may have put another tensor in a moment's place.
                    if name not in moments:
                        moments[name] = value.new_zeros(len(stack), *value.shape[1:])
                    moments[name][:active] = value
            else:
                gradients, loss = self._run(
                    StackStep(gradient, weights[: len(batch.y)], batch, here, numbers), self.gradients
                )
                decay = here.own.weight_decay
                descend(
                    weights[:active],
                    gradients[:active],
                    context.training,
                    context.lr,
                    decay[0][:active, None] if decay else context.training.weight_decay,
                    own,
                    taken + 1,
                )
                moments = moments or own
            if first is None:
                before, first = loss.tolist(), batch
        assert first is not None
        after = self._loss_after(context, inputs, networks, weights, first)
        return Taken(before, after, moments, *self._passes)

    def _loss_after(
        self,
        context: RoundContext,
        inputs: Inputs,
        networks: Mapping[str, bool],
        weights: Tensor,
        batch: Batch,
    ) -> list[float]:
        """Return the clients' losses on their first batch, without updating batch-norm statistics."""
        if inputs.own.buffers:
            buffers = {name: value.clone() for name, value in inputs.own.buffers.items()}
            inputs = Inputs(inputs.own._replace(buffers=buffers), inputs.common)
        numbers = StepNumbers(context.lr, context.round, 0)
        step = StackStep(self._as_step(self._loss, context, networks), weights, batch, inputs, numbers)
        with torch.no_grad():
            return [float(loss) for loss in self._run(step, self.losses).tolist()]

    def _run(self, step: StackStep, recorder: Recorder) -> Any:
        return step() if self.exact else recorder(step)

    def _as_step(
        self, work: Callable[[StepContext, Batch], T], context: RoundContext, networks: Mapping[str, bool]
    ) -> Step[T]:
        """Return the work of one client as a function of what it reads, for vmap."""

        def step(weights: Tensor, batch: Batch, own: Own, common: Common, numbers: StepNumbers) -> T:
            client = make_step_context(self.simulation, context, networks, weights, own, common, numbers)
            return work(client, batch)

        return step

    def _gradient(self, client: StepContext, batch: Batch) -> tuple[Tensor, Tensor]:
        """Return a client's corrected gradient and its loss."""
        method = self.simulation.method
        client.moments = NoMoments()
        gradient = client.gradient(lambda: method.loss(client, batch), batch)
        corrected = method.correct(client, gradient)
        self._count(client, batch)
        return corrected, client.known_loss

    def _whole_step(self, client: StepContext, batch: Batch) -> tuple[Tensor, Vectors]:
        """Take the step of a method that has its own; return the loss and the moments."""
        self.simulation.method.step(client, batch)
        self._count(client, batch)
        return client.known_loss, client.moments

    def _loss(self, client: StepContext, batch: Batch) -> Tensor:
        """Return a client's mean loss."""
        return masked_mean(self.simulation.method.loss(client, batch), batch.mask)

    def _count(self, client: StepContext, batch: Batch) -> None:
        self._passes = client.forwards / len(batch.y), client.backwards / len(batch.y)

"""Trains clients of one structure at once, of one run or of several."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

import torch
from torch import Tensor

from eunoe.core.flat_model import Vectors, Weights
from eunoe.engines.serial import add_note
from eunoe.engines.simulation import Simulation
from eunoe.engines.vectorized.stack import ClientStack, StackClient
from eunoe.engines.vectorized.step_context import Common, Inputs, Own, collect_prepared, separate
from eunoe.engines.vectorized.steps import Steps
from eunoe.errors import NotVectorizable, first_line

# Messages of torch's transforms for unsupported operations, raised as plain RuntimeError.
_TRANSFORMS = ("vmap", "functorch", "BatchedTensor", "doesn't have storage", "During a grad", "Boolean value")


class Trained(NamedTuple):
    """What the steps of a client give: its weights and moments, its losses, the samples that it passed."""

    weights: Weights
    moments: Vectors
    before: float
    after: float
    forwards: int
    backwards: int


class Stacks:
    """Trains clients of one structure at once, of one run or of several.

    `varied` are the numbers that differ between the runs, such as `method.mu`: each client has its own.
    """

    def __init__(self, simulation: Simulation, varied: Sequence[str] = ()) -> None:
        self.simulation, self.varied, self.steps = simulation, varied, Steps(simulation)
        self._terms_checked = False

    def train(self, members: Sequence[StackClient]) -> list[Trained]:
        """Train clients at once, in any order; raise NotVectorizable if that is impossible."""
        stack = ClientStack.of(members)
        if self.steps.has_buffers and not stack.equal:
            raise NotVectorizable("batch normalization needs batches of equal size")
        self.simulation.model.load(members[0].broadcast.weights)
        self.simulation.model.module.train()
        vectors = [member.start.vectors() for member in stack.members]
        weights = Weights(**{name: torch.stack([own[name] for own in vectors]) for name in vectors[0]})
        client = stack.members[0].client
        networks = {} if client is None else {name: n.features for name, n in client.networks.items()}
        try:
            with _note_clients(stack):
                inputs = self._inputs(stack, weights)
                taken = self.steps.take(stack, inputs, networks, weights.parameters)
        except Exception as error:
            reason = reason_of(error)
            if reason is None:
                raise
            raise NotVectorizable(reason) from None
        results = {
            id(member): Trained(
                Weights(*(vector[k] for vector in weights.vectors().values())),
                {name: moment[k] for name, moment in taken.moments.items()},
                taken.before[k],
                taken.after[k],
                round(taken.forwards * stack.samples[k]),
                round(taken.backwards * stack.samples[k]),
            )
            for k, member in enumerate(stack.members)
        }
        return [results[id(member)] for member in members]

    def _inputs(self, stack: ClientStack, weights: Weights) -> Inputs:
        """Return what the steps read besides their weights and batches."""
        model, members = self.simulation.model, stack.members
        clients = [member.client for member in members if member.client is not None]
        own_prepared, common_prepared = collect_prepared(clients, max(len(rows) for rows in stack.rows))
        own_start, own_shared, start, shared = Vectors(), Vectors(), Vectors(), Vectors()
        separate(own_start, start, [member.broadcast.weights.vectors() for member in members])
        separate(own_shared, shared, [member.broadcast.shared for member in members])
        buffers = {"float_buffers": weights.float_buffers, "int_buffers": weights.int_buffers}
        own = Own(
            id=torch.tensor(stack.clients).to(model.device),
            size=torch.tensor([len(rows) for rows in stack.rows]).to(model.device),
            steps=torch.tensor(stack.steps).to(model.device),
            counts=stack.counts.to(model.device),
            terms=self._terms(stack).to(model.device),
            buffers={name: value for name, value in buffers.items() if value.numel()},
            weight_decay=self._weight_decay(stack),
            start=own_start,
            shared=own_shared,
            options=self._options(members),
            prepared=own_prepared,
            moments={},
        )
        return Inputs(own, Common(start, shared, common_prepared))

    def _options(self, members: Sequence[StackClient]) -> Vectors:
        """Return the numbers that differ between clients, for each client."""
        numbers = {name: [number_of(member.simulation, name) for member in members] for name in self.varied}
        numbers.pop("training.weight_decay", None)
        facts = {
            "lr": [member.context.lr for member in members],
            "round": [float(member.context.round) for member in members],
            "mean_size": [member.context.data.mean_size for member in members],
        }
        numbers |= {name: values for name, values in facts.items() if len(set(values)) > 1}
        model = self.simulation.model
        return {name: torch.tensor(v, dtype=model.dtype, device=model.device) for name, v in numbers.items()}

    def _weight_decay(self, stack: ClientStack) -> tuple[Tensor, ...]:
        """Return each client's weight decay; empty if all have that of the training options."""
        training, counts = self.simulation.context.training, stack.loss_counts
        decays = [member.context.training.weight_decay for member in stack.members]
        decay = torch.tensor(decays, dtype=counts.dtype)
        if training.single_class == "no_decay" and decay.any():
            learns = [m.simulation.loss.learns_from(c) for m, c in zip(stack.members, counts, strict=True)]
            decay = decay * torch.tensor(learns)
        elif "training.weight_decay" not in self.varied:
            return ()
        return (decay.to(self.simulation.model.device),)

    def _terms(self, stack: ClientStack) -> Tensor:
        """Return the loss's terms of every client's counts, checked once against those of the first alone."""
        losses, counts = [member.simulation.loss for member in stack.members], stack.loss_counts
        if any(loss != losses[0] for loss in losses):
            return torch.stack([loss.terms(row) for loss, row in zip(losses, counts, strict=True)])
        terms = losses[0].terms(counts)
        if not self._terms_checked and len(counts) > 1:
            if not torch.allclose(terms[0], losses[0].terms(counts[0]), equal_nan=True):
                raise NotVectorizable("the loss's terms(counts) must read each row of the counts by itself")
            self._terms_checked = True
        return terms


def number_of(simulation: Simulation, name: str) -> float:
    """Return a number of a simulation's method, loss or training options, such as `method.mu`."""
    kind, _, option = name.partition(".")
    owner = simulation.context.training if kind == "training" else getattr(simulation, kind)
    return float(getattr(owner, option))


def reason_of(error: Exception) -> str | None:
    """Return why an exception means that clients cannot be vectorized; None if it is another error."""
    if isinstance(error, NotVectorizable):
        return str(error)
    if isinstance(error, RuntimeError) and any(phrase in str(error) for phrase in _TRANSFORMS):
        return f"this could not be vectorized ({first_line(error)})"
    return None


def _note_clients(stack: ClientStack) -> AbstractContextManager[None]:
    clients, round = stack.clients, stack.simulation.context.round
    names = f"client {clients[0]}" if len(clients) == 1 else f"clients {', '.join(map(str, clients))}"
    return add_note(
        f"This happened while {names} trained at once in round {round}. If engine 'serial' works, the "
        "method cannot be vectorized: set its `vectorizes` to False."
    )

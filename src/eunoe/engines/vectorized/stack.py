"""A stack of clients that train at once: the same samples in the same steps as if each trained alone.

They may be clients of several runs on the same samples. All is laid out in a few array operations for the
whole stack. Clients are ordered by their number of steps, most first, so that those with steps left are
always the first rows of a matrix.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eunoe.core.fields import Fields, Input
from eunoe.core.flat_model import Weights
from eunoe.core.rng import torch_generator
from eunoe.engines.simulation import ClientData, Simulation
from eunoe.methods.context import Batch, ClientContext, RoundContext
from eunoe.server.updates import Broadcast

Integers = NDArray[np.int64]

# Inputs are prepared for as many steps at once as hold this many numbers.
_NUMBERS_AT_ONCE = 2_000_000


@dataclass
class StackClient:
    """A client that is ready to train: what it received, its batches, and what `begin` prepared."""

    data: ClientData
    broadcast: Broadcast
    # The positions of all steps' samples in its data, and the sizes of its batches.
    order: Integers
    lengths: list[int]
    # The weights that it starts from.
    start: Weights
    client: ClientContext | None = None
    # The state of its stream of torch's global generator.
    stream: Tensor | None = None

    @classmethod
    def plan(cls, data: ClientData, broadcast: Broadcast) -> "StackClient":
        """Draw a client's batches."""
        return cls(data, broadcast, *data.plan(), broadcast.weights)

    @property
    def simulation(self) -> Simulation:
        """The simulation of its round."""
        return self.data.simulation

    @property
    def context(self) -> RoundContext:
        return self.data.simulation.context


@dataclass(frozen=True)
class ClientStack:
    """Clients that train at once, and their batches padded to one size."""

    members: list[StackClient]
    # Positions in each client's data [steps, clients, batch].
    index: Integers
    # How many of a batch are real [steps, clients]; 0 where a client has no such step left.
    lengths: Integers

    @classmethod
    def of(cls, members: Sequence[StackClient]) -> "ClientStack":
        """Put clients into a stack."""
        members = sorted(members, key=lambda member: -len(member.lengths))
        padded = np.zeros((len(members), len(members[0].lengths)), np.int64)
        for row, member in zip(padded, members, strict=True):
            row[: len(member.lengths)] = member.lengths
        real = padded[:, :, None] > np.arange(padded.max())
        index = np.zeros(real.shape, np.int64)
        index[real] = np.concatenate([member.order for member in members])
        return cls(members, np.ascontiguousarray(index.transpose(1, 0, 2)), np.ascontiguousarray(padded.T))

    def __len__(self) -> int:
        """Return the number of clients."""
        return len(self.members)

    @property
    def simulation(self) -> Simulation:
        """The simulation of the first client, which has the samples, the task and the options of all."""
        return self.members[0].simulation

    @cached_property
    def clients(self) -> list[int]:
        return [member.data.client for member in self.members]

    @property
    def rows(self) -> list[Integers]:
        """The rows that each client trains on."""
        return [member.data.rows for member in self.members]

    @cached_property
    def active(self) -> list[int]:
        """How many clients have each step."""
        return [int(n) for n in (self.lengths > 0).sum(1)]

    @cached_property
    def steps(self) -> list[int]:
        """How many steps each client has."""
        return [int(n) for n in (self.lengths > 0).sum(0)]

    @cached_property
    def samples(self) -> list[int]:
        """How many samples each client sees in all of its steps."""
        return [int(n) for n in self.lengths.sum(0)]

    @property
    def equal(self) -> bool:
        """Whether the batches of a step are of one size over all clients that have it."""
        return bool(((self.lengths == self.lengths[:, :1]) | (self.lengths == 0)).all())

    @cached_property
    def counts(self) -> Tensor:
        """How many training samples of each class each client has, in the model's type."""
        federation = self.simulation.federation
        if self.simulation.memory.stale_counts:
            counts = torch.stack([member.data.counts for member in self.members])
        else:
            rows = [member.simulation.federation.rows(member.data.client) for member in self.members]
            owners = torch.from_numpy(np.repeat(np.arange(len(self)), [len(own) for own in rows]))
            labels = federation.samples("clients").y[torch.from_numpy(np.concatenate(rows))]
            counts = federation.task.counts(labels, owners, len(self), federation.classes)
        return counts.to(self.simulation.model.dtype)

    @property
    def loss_counts(self) -> Tensor:
        """The class counts for each client's loss, in the model's type."""
        simulation = self.simulation
        if simulation.context.training.label_counts == "train" and not simulation.memory.replay:
            return self.counts
        return torch.stack([member.data.loss_counts for member in self.members]).to(self.counts)

    def batches(self) -> Iterator[Batch]:
        """Yield the batch of every step, with a first dimension of the clients that have it."""
        federation, device = self.simulation.federation, self.simulation.model.device
        steps, _, width = self.index.shape
        rows = np.stack([own[at] for own, at in zip(self.rows, self.index.swapaxes(0, 1), strict=True)], 1)
        real = self.lengths[:, :, None] > np.arange(width)
        labels = federation.samples("clients").y
        chances = [
            torch_generator(member.context.seed, "augmentation", member.context.round, member.data.client)
            for member in (self.members if self.simulation.augment.active else ())
        ]
        first = 0
        while first < steps:
            count = self.active[first]
            at_once = _NUMBERS_AT_ONCE // (count * width * federation.form.numbers)
            # Samples of varying length are padded step by step.
            last = min(first + (1 if federation.form.ragged else max(1, at_once)), steps)
            while self.active[last - 1] != count:
                last -= 1
            part = torch.from_numpy(rows[first:last, :count])
            x = self._inputs(part, chances, first).unbind()
            y = labels[part].to(device).unbind()
            index = torch.from_numpy(self.index[first:last, :count]).to(device).unbind()
            mask = torch.from_numpy(real[first:last, :count]).to(device).unbind()
            for i in range(last - first):
                full = bool(real[first + i, :count].all())
                batch = Batch(x[i], y[i], index[i], None if full else mask[i])
                if self.simulation.context.model.has_batch_norm and batch.mask is not None:
                    # A mask keeps padding out of the loss, but not out of the statistics of batch norm.
                    real_part = (slice(None), slice(int(self.lengths[first + i, 0])))
                    batch = Batch(batch.x[real_part], batch.y[real_part], batch.index[real_part])
                yield batch
            first = last

    def _inputs(self, rows: Tensor, chances: list[torch.Generator], first: int) -> Input:
        """Return model inputs for rows [steps, clients, batch], as each client sees them."""
        federation, simulation = self.simulation.federation, self.simulation
        x = federation.inputs("clients", rows.reshape(-1))
        if isinstance(x, Fields):
            # They have neither a feature shift nor augmentation.
            return x.unflatten(0, rows.shape).to(simulation.model.device)
        x = x.reshape(*rows.shape, *x.shape[1:])
        if federation.shift is not None:
            for member, own in zip(self.members, x.unbind(1), strict=False):
                shifted = member.simulation.federation.shifted(own.flatten(0, 1), member.data.client)
                own.copy_(cast(Tensor, shifted).view(own.shape))
        x = x.to(simulation.model.device)
        if chances:
            for step, lengths in zip(x, self.lengths[first:], strict=False):
                for own, length, rng in zip(step, lengths, chances, strict=False):
                    if length:
                        own[:length] = simulation.augmented(own[:length], rng)
        return x

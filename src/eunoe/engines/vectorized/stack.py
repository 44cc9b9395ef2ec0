"""A stack of clients that train at once: the same samples in the same steps as if each trained alone.

All is laid out in a few array operations for the whole stack. Clients are ordered by their number of steps,
most first, so that those with steps left are always the first rows of a matrix.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eunoe.core.batches import plan_steps, round_up
from eunoe.core.fields import Fields, Input
from eunoe.core.rng import generator, torch_generator
from eunoe.engines.simulation import ClientData, Simulation
from eunoe.methods.client_context import Batch
from eunoe.methods.context import RoundContext

Integers = NDArray[np.int64]

# Inputs are prepared for as many steps at once as hold this many numbers.
_NUMBERS_AT_ONCE = 2_000_000


@dataclass(frozen=True)
class ClientStack:
    """Clients that train at once, and their batches padded to one size.

    `index` [steps, clients, batch] are positions in each client's data; `lengths` [steps, clients] say how
    many of a batch are real, 0 where a client has no such step left.
    """

    simulation: Simulation
    data: list[ClientData]
    index: Integers
    lengths: Integers
    # Whether steps cover exactly the clients that have them, or a number that seldom changes.
    exact: bool

    @classmethod
    def plan(cls, simulation: Simulation, data: Sequence[ClientData], exact: bool) -> "ClientStack":
        """Draw every client's batches."""
        federation, context = simulation.federation, simulation.context
        plans, training = [], context.training
        for client in data:
            rng = generator(context.seed, "batches", context.round, client.client)
            order, lengths = plan_steps(len(client.rows), training, rng, context.model.has_batch_norm)
            plans.append((client, order, lengths))
        plans.sort(key=lambda plan: -len(plan[2]))
        padded = np.zeros((len(plans), len(plans[0][2])), np.int64)
        for row, (_, _, lengths) in zip(padded, plans, strict=True):
            row[: len(lengths)] = lengths
        width = int(padded.max())
        if not exact:
            most = int(federation.sizes.max())
            width = round_up(width, max(width, min(training.batch_size or most, most)))
        real = padded[:, :, None] > np.arange(width)
        index = np.zeros(real.shape, np.int64)
        index[real] = np.concatenate([order for _, order, _ in plans])
        return cls(
            simulation,
            [client for client, _, _ in plans],
            np.ascontiguousarray(index.transpose(1, 0, 2)),
            np.ascontiguousarray(padded.T),
            exact,
        )

    def __len__(self) -> int:
        """Return the number of clients."""
        return len(self.clients)

    @property
    def context(self) -> RoundContext:
        return self.simulation.context

    @cached_property
    def clients(self) -> list[int]:
        return [data.client for data in self.data]

    @property
    def rows(self) -> list[Integers]:
        """The rows that each client trains on."""
        return [data.rows for data in self.data]

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
    def longest(self) -> int:
        """A number of samples that no client exceeds."""
        largest = max(len(rows) for rows in self.rows)
        most = max(largest, int(self.simulation.federation.sizes.max()))
        return largest if self.exact else round_up(largest, most)

    @property
    def equal(self) -> bool:
        """Whether the batches of a step are of one size over all clients that have it."""
        return bool(((self.lengths == self.lengths[:, :1]) | (self.lengths == 0)).all())

    @cached_property
    def counts(self) -> Tensor:
        """How many training samples of each class each client has, in the model's type."""
        federation = self.simulation.federation
        if self.simulation.memory.stale_counts:
            return torch.stack([data.counts for data in self.data]).to(self.simulation.model.dtype)
        rows = [federation.rows(client) for client in self.clients]
        owners = torch.from_numpy(np.repeat(np.arange(len(self)), [len(own) for own in rows]))
        labels = federation.samples("clients").y[torch.from_numpy(np.concatenate(rows))]
        counts = federation.task.counts(labels, owners, len(self), federation.classes)
        return counts.to(self.simulation.model.dtype)

    @property
    def loss_counts(self) -> Tensor:
        """The class counts for each client's loss, in the model's type."""
        if self.context.training.label_counts == "train" and not self.simulation.memory.replay:
            return self.counts
        return torch.stack([data.loss_counts for data in self.data]).to(self.counts)

    def batches(self) -> Iterator[Batch]:
        """Yield the batch of every step, with a first dimension of clients, at least those that step."""
        federation, device = self.simulation.federation, self.simulation.model.device
        steps, clients, width = self.index.shape
        rows = np.stack(
            [own[index] for own, index in zip(self.rows, self.index.swapaxes(0, 1), strict=True)], 1
        )
        # A client whose steps are over computes on; the result is not used.
        real = (self.lengths[:, :, None] > np.arange(width)) | (self.lengths == 0)[:, :, None]
        partial = ~real.all((1, 2))
        levels = [n if self.exact else round_up(n, clients) for n in self.active]
        labels = federation.samples("clients").y
        chances = [
            torch_generator(self.context.seed, "augmentation", self.context.round, client)
            for client in (self.clients if self.simulation.augment.active else ())
        ]
        first = 0
        while first < steps:
            count = levels[first]
            at_once = _NUMBERS_AT_ONCE // (count * width * federation.form.numbers)
            # Samples of varying length are padded step by step.
            last = min(first + (1 if federation.form.ragged else max(1, at_once)), steps)
            while levels[last - 1] != count:
                last -= 1
            part = torch.from_numpy(rows[first:last, :count])
            x = self._inputs(part, chances, first).unbind()
            y = labels[part].to(device).unbind()
            index = torch.from_numpy(self.index[first:last, :count]).to(device).unbind()
            mask = torch.from_numpy(real[first:last, :count]).to(device).unbind()
            for i in range(last - first):
                batch = Batch(x[i], y[i], index[i], mask[i] if partial[first + i] else None)
                if self.context.model.has_batch_norm and batch.mask is not None:
                    batch = _remove_padding(batch, int(self.lengths[first + i, 0]))
                yield batch
            first = last

    def _inputs(self, rows: Tensor, chances: list[torch.Generator], first: int) -> Input:
        """Return model inputs for rows [steps, clients, batch], as each client sees them."""
        federation, simulation = self.simulation.federation, self.simulation
        # Where steps are recorded, their shapes must repeat.
        x = federation.inputs("clients", rows.reshape(-1), few_lengths=not self.exact)
        if isinstance(x, Fields):
            # They have neither a feature shift nor augmentation.
            return x.unflatten(0, rows.shape).to(simulation.model.device)
        x = x.reshape(*rows.shape, *x.shape[1:])
        if federation.shift is not None:
            for client, own in zip(self.clients, x.unbind(1), strict=False):
                own.copy_(cast(Tensor, federation.shifted(own.flatten(0, 1), client)).view(own.shape))
        x = x.to(simulation.model.device)
        if chances:
            for step, lengths in zip(x, self.lengths[first:], strict=False):
                for own, length, rng in zip(step, lengths, chances, strict=False):
                    if length:
                        own[:length] = simulation.augmented(own[:length], rng)
        return x


def _remove_padding(batch: Batch, length: int) -> Batch:
    """Return a batch of equally many samples from every client without its padding.

    A mask keeps padding out of the loss, but not out of the statistics of batch normalization.
    """
    return Batch(batch.x[:, :length], batch.y[:, :length], batch.index[:, :length])

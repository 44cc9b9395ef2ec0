"""Clients with exactly k classes each, of about equal size.

Each class is shared by a number of clients in proportion to its samples (at least one if there are
enough slots), and its samples are divided evenly among them, so that all samples have an owner
unless there are fewer slots than classes. Classes are drawn client by client, weighted by their open
slots. A class with as many open slots as there are clients left goes to each of them, so that every client
gets k different classes.
"""

import numpy as np
from numpy.random import Generator
from pydantic import Field

from eunoe.data.checks import Array, Integers
from eunoe.data.partitions.base import Division, Partition, by_owner, ranges, rows_by_class
from eunoe.errors import InputError


class Classes(Partition):
    """Exactly k classes for each client, each class divided evenly among its clients."""

    classes: int = Field(2, ge=1, description="Number of classes per client.")

    def divide(self, labels: Array, generator: Generator, groups: Array | None) -> Division:
        rows, starts, counts = rows_by_class(labels, generator)
        chosen = self._choose(self._count_slots(counts), generator)
        # The pairs (client, class) by class, clients in order, as the rows are ordered.
        pairs = np.argsort(chosen.ravel(), kind="stable")
        slots = np.bincount(chosen.ravel(), minlength=len(counts))
        served = np.flatnonzero(slots)
        rank = ranges(np.zeros_like(slots), slots)
        least, more = np.divmod(counts[served], slots[served])
        sizes = np.repeat(least, slots[served]) + (rank < np.repeat(more, slots[served]))
        used = ranges(starts[served], counts[served])
        return by_owner(rows[used], np.repeat(pairs // self.classes, sizes), self.clients)

    def _count_slots(self, counts: Integers) -> Integers:
        """Return the number of clients per class: in proportion to its samples, at most one per sample."""
        most = np.minimum(counts, self.clients)
        slots_needed = self.clients * self.classes
        if most.sum() < slots_needed:
            raise InputError(
                f"{len(counts):,} classes cannot give {self.clients:,} clients {self.classes:,} classes each;"
                " use fewer classes per client or fewer clients"
            )
        slots = np.full(len(counts), int(slots_needed >= len(counts)), np.int64)
        while (missing := slots_needed - int(slots.sum())) > 0:
            weights = np.where(slots < most, counts, 0)
            more = np.minimum(missing * weights // weights.sum(), most - slots)
            if not more.any():
                wanted = np.where(slots < most, counts / (slots + 1), 0)
                more[np.argsort(-wanted, kind="stable")[:missing]] = 1
            slots += more
        return slots

    def _choose(self, slots: Integers, generator: Generator) -> Integers:
        """Draw the classes of each client [clients, k]."""
        chosen = np.empty((self.clients, self.classes), np.int64)
        left = slots.copy()
        for k in range(self.clients):
            # The k smallest of exponential waiting times with rates w are a draw without replacement by w.
            waiting = generator.standard_exponential(len(left))
            with np.errstate(divide="ignore"):
                waiting /= left
            waiting[left == self.clients - k] = -1.0
            chosen[k] = np.argpartition(waiting, self.classes - 1)[: self.classes]
            left[chosen[k]] -= 1
        return chosen

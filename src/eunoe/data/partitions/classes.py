"""Clients with exactly k classes each, of about equal size.

Each class is shared by a number of clients in proportion to its samples (at least one if there are
enough slots), and its samples are divided evenly among them, so that all samples have an owner
unless there are fewer slots than classes. Classes are drawn client by client, weighted by their open
slots; a class with as many open slots as there are clients left must go to each of them, which
ensures that every client ends with k different classes.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from eunoe.data.partitions.base import Integers, Partition, by_owner, ranges, rows_by_class
from eunoe.errors import InputError


class Classes(Partition):
    """Exactly k classes for each client, each class divided evenly among its clients."""

    classes: int = Field(2, ge=1, description="Number of classes per client.")

    def divide(
        self, labels: NDArray[Any], generator: np.random.Generator, groups: NDArray[Any] | None
    ) -> tuple[Integers, Integers]:
        rows, starts, counts = rows_by_class(labels, generator)
        chosen = self._choose(self._places(counts), generator)
        # The pairs (client, class) by class, clients in order, as the rows are ordered.
        pairs = np.argsort(chosen.ravel(), kind="stable")
        places = np.bincount(chosen.ravel(), minlength=len(counts))
        served = np.flatnonzero(places)
        rank = ranges(np.zeros_like(places), places)
        least, more = np.divmod(counts[served], places[served])
        sizes = np.repeat(least, places[served]) + (rank < np.repeat(more, places[served]))
        used = ranges(starts[served], counts[served])
        return by_owner(rows[used], np.repeat(pairs // self.classes, sizes), self.clients)

    def _places(self, counts: Integers) -> Integers:
        """The number of clients per class: in proportion to its samples, at most one client per sample."""
        most = np.minimum(counts, self.clients)
        open_places = self.clients * self.classes
        if most.sum() < open_places:
            raise InputError(
                f"{len(counts):,} classes cannot give {self.clients:,} clients {self.classes:,} classes each;"
                " use fewer classes or clients"
            )
        places = np.full(len(counts), int(open_places >= len(counts)), np.int64)
        while (missing := open_places - int(places.sum())) > 0:
            weights = np.where(places < most, counts, 0)
            more = np.minimum(missing * weights // weights.sum(), most - places)
            if not more.any():
                wanted = np.where(places < most, counts / (places + 1), 0)
                more[np.argsort(-wanted, kind="stable")[:missing]] = 1
            places += more
        return places

    def _choose(self, places: Integers, generator: np.random.Generator) -> Integers:
        """The classes of each client [clients, k]."""
        chosen = np.empty((self.clients, self.classes), np.int64)
        left = places.copy()
        for k in range(self.clients):
            # The k smallest of exponential waiting times with rates w are a draw without replacement by w.
            waiting = generator.standard_exponential(len(left))
            with np.errstate(divide="ignore"):
                waiting /= left
            waiting[left == self.clients - k] = -1.0
            chosen[k] = np.argpartition(waiting, self.classes - 1)[: self.classes]
            left[chosen[k]] -= 1
        return chosen

"""Base classes of streams.

A stream is a frozen object with options. Bound to a federation it is a pure function of (seed, round,
client): any worker can compute any round, in any order and again after a crash, and a client that does not
take part costs nothing.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from eunoe.config.options import Options
from eunoe.core.tasks import EVERY, TaskName
from eunoe.data.checks import Integers

if TYPE_CHECKING:
    from eunoe.data.federation import Federation


class Changes:
    """How a federation changes over the rounds; this base class changes nothing."""

    def phases(self, rounds: int) -> tuple[int, ...]:
        """Return the first round of each phase of a run of this many rounds, starting with 1."""
        return (1,)

    def rows(self, client: int, round: int, rows: Integers) -> Integers:
        """Return a client's training rows in a round, from those that the partition assigned to it."""
        return rows

    def shift(self, round: int) -> float:
        """Return the fraction of the feature shift that applies in a round."""
        return 1.0

    def present(self, client: int, round: int) -> bool:
        """Return whether a client can take part in a round."""
        return True


class CombinedChanges(Changes):
    """Several changes: rows pass through each, and a client is present if it is in all of them."""

    def __init__(self, parts: Sequence[Changes]) -> None:
        self.parts = tuple(parts)

    def phases(self, rounds: int) -> tuple[int, ...]:
        return tuple(sorted({round for part in self.parts for round in part.phases(rounds)}))

    def rows(self, client: int, round: int, rows: Integers) -> Integers:
        for part in self.parts:
            rows = part.rows(client, round, rows)
        return rows

    def shift(self, round: int) -> float:
        return float(np.prod([part.shift(round) for part in self.parts]))

    def present(self, client: int, round: int) -> bool:
        return all(part.present(client, round) for part in self.parts)


@dataclass(frozen=True)
class Timeline:
    """What a stream is bound to; `divide(n)` is the n-th new draw of the partition, if there are any."""

    federation: "Federation"
    seed: int
    divide: Callable[[int], tuple[Integers, Integers]] | None = None


class Stream(Options):
    """Base class of streams; name your own subclass as `package.module:Name`."""

    # Whether it redistributes samples among clients; such streams are applied before all others.
    divides: ClassVar[bool] = False
    # The tasks that it supports.
    tasks: ClassVar[tuple[TaskName, ...]] = EVERY

    def resolve(self, rounds: int) -> Self:
        """Return a copy with defaults for this many rounds; a resumed run with more rounds keeps them."""
        return self

    @abstractmethod
    def bind(self, timeline: Timeline) -> Changes:
        """Return the changes of one federation; raise InputError if the stream does not apply to it."""


def phases_from(changes: Iterable[int], rounds: int) -> tuple[int, ...]:
    """Return the first rounds of phases that start at these rounds, without those after the last round."""
    return tuple(sorted({1, *(round for round in changes if round <= rounds)}))

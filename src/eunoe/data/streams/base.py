"""The contract of a stream: how the clients' data and the clients themselves change with the rounds.

A stream is a frozen object of its options. Bound to a federation it is a pure function of (seed, round,
client): any round can be computed on any worker, in any order, and again after a crash, and a client that
does not take part costs nothing.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from eunoe.config.options import Options
from eunoe.core.tasks import EVERY, TaskName
from eunoe.data.changes import Changes, Integers

if TYPE_CHECKING:
    from eunoe.data.federation import Federation

# Divides the clients' training rows among them by another draw, as (order, offsets).
Division = Callable[[int], tuple[Integers, Integers]]


@dataclass(frozen=True)
class Timeline:
    """What a stream is bound to: a federation, the seed, and further draws of the partition.

    `divide` is None where the partition is not known or cannot be drawn again.
    """

    federation: "Federation"
    seed: int
    divide: Division | None = None


class Stream(Options):
    """Base of the streams; a stream of your own derives from it and is named as `package.module:Name`."""

    # Whether it divides samples anew, which comes before anything that chooses among a client's samples.
    divides: ClassVar[bool] = False
    # The tasks that it serves.
    tasks: ClassVar[tuple[TaskName, ...]] = EVERY

    def settled(self, rounds: int) -> Self:
        """The same with the defaults that depend on the length of the run filled in.

        What it changes in a round then no longer depends on how many rounds follow.
        """
        return self

    @abstractmethod
    def bind(self, timeline: Timeline) -> Changes:
        """The changes of one federation; InputError if it cannot change in this way."""


class Unchanged:
    """Changes nothing; the base of changes that change one thing."""

    def phases(self, rounds: int) -> tuple[int, ...]:
        return (1,)

    def rows(self, client: int, round: int, rows: Integers) -> Integers:
        return rows

    def shift(self, round: int) -> float:
        return 1.0

    def present(self, client: int, round: int) -> bool:
        return True


def phases_from(changes: Iterable[int], rounds: int) -> tuple[int, ...]:
    """The first rounds of the phases that begin with these changes, as far as the run has them."""
    return tuple(sorted({1, *(round for round in changes if round <= rounds)}))

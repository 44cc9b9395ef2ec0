"""How a federation changes with the rounds, as training sees it."""

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Integers = NDArray[np.int64]


class Changes(Protocol):
    """What changes in a round: pure functions of (seed, round, client), so that any round can be repeated."""

    def phases(self, rounds: int) -> tuple[int, ...]:
        """The first rounds of the phases of a run of so many rounds; the first is 1."""

    def rows(self, client: int, round: int, rows: Integers) -> Integers:
        """The training rows that a client has in a round, given those that the partition gave it."""

    def shift(self, round: int) -> float:
        """How much of the feature shift is there in a round, from 0 to 1."""

    def present(self, client: int, round: int) -> bool:
        """Whether a client can take part in a round."""


class All:
    """Several changes at once: rows pass through each, and a client is there if none keeps it away."""

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

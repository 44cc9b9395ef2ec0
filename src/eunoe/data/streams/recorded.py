"""Samples that arrive in the order in which they were recorded, which is the order of the data file.

A client starts with the first `share` of its samples; the others arrive evenly until round `over`. Earlier
ones stay (`keep`), or the client holds only the newest `share`, as a device with little memory does.
"""

import numpy as np
from pydantic import Field, PositiveInt

from eunoe.config.options import Finite
from eunoe.data.checks import Integers
from eunoe.data.streams.base import Changes, Stream, Timeline, phases_from


class Recorded(Stream, Changes):
    """Each client's samples arrive in the order of the data file; it keeps all so far, or only the newest."""

    share: Finite = Field(
        0.2, gt=0, le=1, description="Share of its samples that a client has at first, and at any time."
    )
    keep: bool = Field(False, description="Whether samples stay once they have arrived.")
    over: PositiveInt | None = Field(
        None, description="The round by which all samples have arrived; by default the last of the run."
    )

    def resolve(self, rounds: int) -> "Recorded":
        return self.model_copy(update={"over": self.over or rounds})

    def bind(self, timeline: Timeline) -> Changes:
        return self

    def phases(self, rounds: int) -> tuple[int, ...]:
        # In the second phase nothing arrives any more.
        return phases_from(((self.over or 1) + 1,) if self.share < 1 else (), rounds)

    def rows(self, client: int, round: int, rows: Integers) -> Integers:
        progress = min(1.0, (round - 1) / max(1, (self.over or 1) - 1))
        count = len(rows)
        held = max(1, int(np.ceil(self.share * count)))
        arrived = held + int(np.floor(progress * (count - held) + 0.5))
        rank = np.empty(count, np.int64)
        rank[np.argsort(rows)] = np.arange(count)
        return np.asarray(rows[(rank < arrived) & (self.keep | (rank >= arrived - held))])

"""Samples that arrive in the order in which they were recorded, which is that of the data file.

A client begins with the first `share` of its samples; the others come evenly until round `over`. Earlier ones
stay (`keep`), or the client holds the newest `share` alone, as a device with little memory does.
"""

import numpy as np
from pydantic import Field, PositiveInt

from eunoe.config.options import Finite
from eunoe.data.changes import Changes, Integers
from eunoe.data.streams.base import Stream, Timeline, Unchanged, phases_from


class Recorded(Stream):
    """Each client's samples arrive in the order of the data file; it has all so far, or the newest alone."""

    share: Finite = Field(
        0.2, gt=0, le=1, description="Share of its samples that a client has at first, and at any time."
    )
    keep: bool = Field(False, description="Whether samples stay once they have arrived.")
    over: PositiveInt | None = Field(
        None, description="The round by which all samples have arrived; by default the last of the run."
    )

    def settled(self, rounds: int) -> "Recorded":
        return self.model_copy(update={"over": self.over or rounds})

    def bind(self, timeline: Timeline) -> Changes:
        return _Arriving(self)


class _Arriving(Unchanged):
    def __init__(self, options: Recorded) -> None:
        self.options, self.over = options, options.over or 1

    def phases(self, rounds: int) -> tuple[int, ...]:
        # The second phase is that in which nothing arrives any more.
        return phases_from((self.over + 1,) if self.options.share < 1 else (), rounds)

    def rows(self, client: int, round: int, rows: Integers) -> Integers:
        gone = min(1.0, (round - 1) / max(1, self.over - 1))
        share, count = self.options.share, len(rows)
        held = max(1, int(np.ceil(share * count)))
        arrived = held + int(np.floor(gone * (count - held) + 0.5))
        place = np.empty(count, np.int64)
        place[np.argsort(rows)] = np.arange(count)
        there: Integers = rows[(place < arrived) & (self.options.keep | (place >= arrived - held))]
        return there

"""Label drift: each client's class mix moves from one draw of the partition to another.

The clients' training samples are divided again by the same partition with other random numbers. In the
gradual mode a client gives up samples of its first share one by one while those of the second come in,
linearly from round `start` to round `end`; in the sudden mode all at once at `start`; in the recurring mode
it goes back and forth every `period` rounds from `start` on. Before and after a change, all clients together
have the same samples except for those that do not divide evenly. During a gradual change some samples belong
to two clients and some to none. Validation and test samples stay.
"""

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt, model_validator

from eunoe.core.tasks import CLASSES
from eunoe.data.checks import Integers
from eunoe.data.streams.base import Changes, Stream, Timeline, phases_from
from eunoe.errors import InputError


class LabelDrift(Stream):
    """Each client's class mix moves from one draw of the partition to another."""

    divides: ClassVar[bool] = True
    tasks = CLASSES

    mode: Literal["gradual", "sudden", "recurring"] = Field(
        "gradual", description="From start to end, at once at start, or back and forth from start on."
    )
    start: PositiveInt | None = Field(None, description="The first changed round; by default a third in.")
    end: PositiveInt | None = Field(
        None, description="The first round of the second mix alone (gradual); by default two thirds in."
    )
    period: PositiveInt = Field(20, description="Rounds between the changes of the recurring mode.")

    @model_validator(mode="after")
    def _check_mode(self) -> "LabelDrift":
        if self.end is not None and self.mode != "gradual":
            raise ValueError("end requires mode = 'gradual'")
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError("end must be after start")
        if "period" in self.model_fields_set and self.mode != "recurring":
            raise ValueError("period requires mode = 'recurring'")
        return self

    def resolve(self, rounds: int) -> "LabelDrift":
        start = self.start or max(2, rounds // 3 + 1)
        if self.mode != "gradual":
            return self.model_copy(update={"start": start})
        end = self.end or max(start + 1, 2 * rounds // 3 + 1)
        return self.model_copy(update={"start": start, "end": end})

    def bind(self, timeline: Timeline) -> Changes:
        if timeline.divide is None:
            raise InputError(
                "stream 'label_drift' redraws the partition, which is impossible for natural clients and "
                "for your own federation; use another partition, or stream 'classes' or 'arrival'"
            )
        return _MovingRows(self, *timeline.divide(1))


class _MovingRows(Changes):
    def __init__(self, options: LabelDrift, order: Integers, offsets: Integers) -> None:
        self.options, self.order, self.offsets = options, order, offsets
        self.start, self.end = options.start or 1, options.end or 1
        self.period = options.period if options.mode == "recurring" else None

    def phases(self, rounds: int) -> tuple[int, ...]:
        if self.period:
            changes = tuple(range(self.start, rounds + 1, self.period))
        else:
            changes = (self.start, self.end) if self.options.mode == "gradual" else (self.start,)
        return phases_from(changes, rounds)

    def share(self, round: int) -> float:
        """Return the share of the second mix in a round."""
        if round < self.start:
            return 0.0
        if self.period:
            return float((round - self.start) // self.period % 2 == 0)
        if self.options.mode == "sudden":
            return 1.0
        return min(1.0, (round - self.start) / (self.end - self.start))

    def rows(self, client: int, round: int, rows: Integers) -> Integers:
        share = self.share(round)
        if share == 0:
            return rows
        others = self.order[self.offsets[client] : self.offsets[client + 1]]
        staying = rows[len(rows) - _round_half_up((1 - share) * len(rows)) :]
        coming = others[: _round_half_up(share * len(others))]
        return np.concatenate([staying, coming[~np.isin(coming, staying)]])


def _round_half_up(number: float) -> int:
    return int(np.floor(number + 0.5))

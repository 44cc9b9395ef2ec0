"""Clients that join, leave, and are available only at certain hours of the day.

When a client joins, leaves and wakes is drawn from (seed, client) alone, so only clients that are asked for
cost anything.
"""

import math
from functools import lru_cache

from pydantic import Field, PositiveInt, model_validator

from eunoe.config.options import Finite
from eunoe.core.rng import generator
from eunoe.data.streams.base import Changes, Stream, Timeline


class Arrival(Stream):
    """Clients join and leave during the run, and are available only at certain hours of the day."""

    joining: Finite = Field(0.0, ge=0, le=1, description="Share of clients that join later, at any round.")
    leaving: Finite = Field(0.0, ge=0, le=1, description="Share of clients that leave, at any round after.")
    day: PositiveInt | None = Field(None, description="Rounds per day; by default there are no days.")
    awake: Finite = Field(
        0.5, gt=0, le=1, description="Share of a day in which a client is available, at hours of its own."
    )
    together: Finite = Field(
        0.5,
        ge=0,
        le=1,
        description="How similar the clients' hours are: 0 spreads them over the day, 1 makes them equal.",
    )

    over: PositiveInt | None = Field(
        None, description="Rounds in which clients join and leave; by default all of the run."
    )

    @model_validator(mode="after")
    def _check_day(self) -> "Arrival":
        if self.day is None and self.model_fields_set & {"awake", "together"}:
            raise ValueError("awake and together require day")
        return self

    def resolve(self, rounds: int) -> "Arrival":
        return self.model_copy(update={"over": self.over or rounds})

    def bind(self, timeline: Timeline) -> Changes:
        return Presence(self, timeline.seed)


class Presence(Changes):
    """Which clients are present; `schedule` caches what was drawn for a client."""

    def __init__(self, options: Arrival, seed: int) -> None:
        self.options, self.seed, self.over = options, seed, options.over or 1
        self.schedule = lru_cache(maxsize=65536)(self._draw)

    def __reduce__(self) -> tuple[type["Presence"], tuple[Arrival, int]]:
        # The cache cannot be pickled.
        return Presence, (self.options, self.seed)

    def _draw(self, client: int) -> tuple[int, float, float]:
        """Draw a client's first round, its last round, and the time of day at which it wakes (0 to 1)."""
        joins, first, leaves, last, wakes = generator(self.seed, "arrival", client=client).random(5)
        options, over = self.options, self.over
        joined = 1 + int(first * over) if joins < options.joining else 1
        left = joined + int(last * (over - joined + 1)) if leaves < options.leaving else math.inf
        return joined, left, float(wakes * (1 - options.together))

    def present(self, client: int, round: int) -> bool:
        joined, left, wakes = self.schedule(client)
        if not joined <= round <= left:
            return False
        if self.options.day is None:
            return True
        hour = (round - 1) % self.options.day / self.options.day
        return (hour - wakes) % 1.0 < self.options.awake

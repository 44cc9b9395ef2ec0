"""Clients that join, leave, and are available at hours of their own, drawn from (seed, client) alone."""

import math
from functools import lru_cache

from pydantic import Field, PositiveInt

from eunoe.config.options import Finite
from eunoe.core.rng import generator
from eunoe.data.streams.base import Changes, Stream, Timeline


class Arrival(Stream):
    """Clients join and leave during the run, and are available only at certain hours of the day."""

    joining: Finite = Field(0.0, ge=0, le=1, description="Share of clients that join later, at any round.")
    leaving: Finite = Field(0.0, ge=0, le=1, description="Share of clients that leave, at any round after.")
    day: PositiveInt | None = Field(None, description="Rounds per day; by default there are no days.")
    awake: Finite = Field(0.5, gt=0, le=1, description="Share of a day in which a client is available.")
    together: Finite = Field(0.5, ge=0, le=1, description="Similarity of their hours: 0 spread out, 1 equal.")
    over: PositiveInt | None = Field(None, description="Rounds of joining and leaving; default: all.")

    def _check_options(self) -> None:
        if self.day is None and self.model_fields_set & {"awake", "together"}:
            raise ValueError("awake and together require day")

    def resolve(self, rounds: int) -> "Arrival":
        return self.model_copy(update={"over": self.over or rounds})

    def bind(self, timeline: Timeline) -> Changes:
        return Presence(self, timeline.seed)


class Presence(Changes):
    """Which clients are present in a round."""

    def __init__(self, options: Arrival, seed: int) -> None:
        self.options, self.seed = options, seed

    def present(self, client: int, round: int) -> bool:
        joined, left, wakes = draw_schedule(self.options, self.seed, client)
        if not joined <= round <= left:
            return False
        if self.options.day is None:
            return True
        hour = (round - 1) % self.options.day / self.options.day
        return (hour - wakes) % 1.0 < self.options.awake


@lru_cache(maxsize=65536)
def draw_schedule(options: Arrival, seed: int, client: int) -> tuple[int, float, float]:
    """Draw a client's first round, its last round, and the time of day at which it wakes (0 to 1)."""
    joins, first, leaves, last, wakes = generator(seed, "arrival", client=client).random(5)
    over = options.over or 1
    joined = 1 + int(first * over) if joins < options.joining else 1
    left = joined + int(last * (over - joined + 1)) if leaves < options.leaving else math.inf
    return joined, left, float(wakes * (1 - options.together))

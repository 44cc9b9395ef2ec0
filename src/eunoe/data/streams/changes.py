"""Built-in streams: the samples that a client trains on, the shift of inputs, and the presence of clients."""

import math
from functools import lru_cache
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import torch
from pydantic import Field, PositiveInt

from eunoe.config.options import Finite
from eunoe.core.rng import generator
from eunoe.core.tasks import CLASSES
from eunoe.data.checks import Integers
from eunoe.data.streams.base import Changes, Stream, Timeline, phases_from
from eunoe.errors import InputError

if TYPE_CHECKING:
    from eunoe.data.federation import Federation


# Federated class-incremental learning. A client without samples of a phase's classes does not take part.
class ClassPhases(Stream):
    """New classes appear in phases; a client trains on all classes so far, or on the newest only."""

    tasks = CLASSES

    phases: int = Field(5, ge=1, le=1000, description="Number of phases of the rounds and classes.")
    every: PositiveInt | None = Field(None, description="Rounds per phase; default: rounds / phases.")
    keep: bool = Field(False, description="Whether samples of earlier phases stay.")
    shuffle: bool = Field(True, description="Whether classes come in a random order.")

    def resolve(self, rounds: int) -> "ClassPhases":
        return self.model_copy(update={"every": self.every or max(1, rounds // self.phases)})

    def bind(self, timeline: Timeline) -> Changes:
        classes = timeline.federation.classes
        if self.phases > classes:
            raise InputError(f"stream.phases={self.phases} is too large: there are {classes} classes")
        rng = generator(timeline.seed, "stream classes")
        order = rng.permutation(classes) if self.shuffle else np.arange(classes)
        groups = [group.tolist() for group in np.array_split(order, self.phases)]
        return ClassesInPhases(timeline.federation, groups, self.every or 1, self.keep)


class ClassesInPhases(Changes):
    """The classes of each phase."""

    def __init__(self, federation: "Federation", groups: list[list[int]], every: int, keep: bool) -> None:
        self.groups, self.every, self.labels = groups, every, federation.data.train.y
        # Which classes are trained on, [phases, classes].
        self.trained = np.zeros((len(groups), federation.classes), dtype=bool)
        for phase, group in enumerate(groups):
            last = None if keep else phase + 1
            self.trained[phase:last, group] = True

    def rows(self, client: int, round: int, rows: Integers) -> Integers:
        # The last phase has no end.
        phase = min((round - 1) // self.every, len(self.groups) - 1)
        labels = self.labels[torch.from_numpy(rows)].numpy()
        return np.asarray(rows[self.trained[phase][labels]])

    def phases(self, rounds: int) -> tuple[int, ...]:
        return phases_from((1 + number * self.every for number in range(len(self.groups))), rounds)


# A client starts with the first `share` of its samples; the others arrive evenly until round `over`. Earlier
# ones stay (`keep`), or the client holds only the newest `share`, as a device with little memory does.
class Recorded(Stream, Changes):
    """Each client's samples arrive in the order of the data file; it keeps all so far, or only the newest."""

    share: Finite = Field(0.2, gt=0, le=1, description="Share of its samples that a client has at a time.")
    keep: bool = Field(False, description="Whether samples stay once they have arrived.")
    over: PositiveInt | None = Field(None, description="Round by which all have arrived; default: the last.")

    def resolve(self, rounds: int) -> "Recorded":
        return self.model_copy(update={"over": self.over or rounds})

    def bind(self, timeline: Timeline) -> Changes:
        return self

    def phases(self, rounds: int) -> tuple[int, ...]:
        # In the second phase nothing arrives any more.
        return phases_from(((self.over or 1) + 1,) if self.share < 1 else (), rounds)

    def rows(self, client: int, round: int, rows: Integers) -> Integers:
        progress, count = min(1.0, (round - 1) / max(1, (self.over or 1) - 1)), len(rows)
        held = max(1, int(np.ceil(self.share * count)))
        arrived = held + _round_half_up(progress * (count - held))
        rank = np.argsort(np.argsort(rows))
        return np.asarray(rows[(rank < arrived) & (self.keep | (rank >= arrived - held))])


class Domain(Stream, Changes):
    """The feature shift of the config grows linearly from none to its full strength."""

    start: PositiveInt | None = Field(None, description="Last round without shift; default: a third in.")
    end: PositiveInt | None = Field(None, description="First round of full shift; default: two thirds in.")

    def _check_options(self) -> None:
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError("end must be after start")

    def resolve(self, rounds: int) -> "Domain":
        start = self.start or max(1, rounds // 3)
        return self.model_copy(update={"start": start, "end": self.end or max(start + 1, 2 * rounds // 3)})

    def bind(self, timeline: Timeline) -> Changes:
        if timeline.federation.shift is None:
            raise InputError("stream 'domain' needs a feature shift: set shift.kind and shift.strength")
        return self

    def phases(self, rounds: int) -> tuple[int, ...]:
        return phases_from(((self.start or 1) + 1, self.end or 2), rounds)

    def shift(self, round: int) -> float:
        start, end = self.start or 1, self.end or 2
        return min(1.0, max(0.0, (round - start) / (end - start)))


# The clients' training samples are divided again by the same partition with other random numbers. In the
# gradual mode a client exchanges its first share for its second, sample by sample, from round `start` to
# `end`; in the sudden mode at once at `start`; in the recurring mode back and forth every `period` rounds.
# During a gradual change some samples belong to two clients and some to none. Other parts do not change.
class LabelDrift(Stream):
    """Each client's class mix moves from one draw of the partition to another."""

    divides: ClassVar[bool] = True
    tasks = CLASSES

    mode: Literal["gradual", "sudden", "recurring"] = Field(
        "gradual", description="From start to end, at once at start, or back and forth from start on."
    )
    start: PositiveInt | None = Field(None, description="First changed round; default: a third in.")
    end: PositiveInt | None = Field(None, description="First round of the second mix alone; default: 2/3 in.")
    period: PositiveInt = Field(20, description="Rounds between the changes of the recurring mode.")

    def _check_options(self) -> None:
        if self.end is not None and self.mode != "gradual":
            raise ValueError("end requires mode = 'gradual'")
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError("end must be after start")
        if "period" in self.model_fields_set and self.mode != "recurring":
            raise ValueError("period requires mode = 'recurring'")

    def resolve(self, rounds: int) -> "LabelDrift":
        start = self.start or max(2, rounds // 3 + 1)
        end = self.end or max(start + 1, 2 * rounds // 3 + 1)
        return self.model_copy(update={"start": start, **({"end": end} if self.mode == "gradual" else {})})

    def bind(self, timeline: Timeline) -> Changes:
        if timeline.divide is None:
            raise InputError("stream 'label_drift' needs a partition that can be redrawn, not 'natural'")
        return _MovingRows(self, *timeline.divide(1))


class _MovingRows(Changes):
    def __init__(self, options: LabelDrift, order: Integers, offsets: Integers) -> None:
        self.order, self.offsets, self.start = order, offsets, options.start or 1
        # A sudden change ends when it starts.
        self.end = options.end or self.start
        self.period = options.period if options.mode == "recurring" else None

    def phases(self, rounds: int) -> tuple[int, ...]:
        if self.period:
            return phases_from(range(self.start, rounds + 1, self.period), rounds)
        return phases_from((self.start, self.end), rounds)

    def share(self, round: int) -> float:
        """Return the share of the second mix in a round."""
        if round < self.start:
            return 0.0
        if self.period:
            return float((round - self.start) // self.period % 2 == 0)
        return min(1.0, (round - self.start) / (self.end - self.start)) if self.end > self.start else 1.0

    def rows(self, client: int, round: int, rows: Integers) -> Integers:
        share = self.share(round)
        if share == 0:
            return rows
        new_rows = self.order[self.offsets[client] : self.offsets[client + 1]]
        kept_rows = rows[len(rows) - _round_half_up((1 - share) * len(rows)) :]
        new_rows = new_rows[: _round_half_up(share * len(new_rows))]
        return np.concatenate([kept_rows, new_rows[~np.isin(new_rows, kept_rows)]])


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


def _round_half_up(number: float) -> int:
    return int(np.floor(number + 0.5))

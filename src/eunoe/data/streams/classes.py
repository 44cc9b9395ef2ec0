"""New classes in phases: federated class-incremental learning.

The classes, in random order or in the order of their numbers, are cut into one group per phase of equal
length. In a phase a client trains on its samples of all groups so far, or of the newest group only; a client
without such samples does not take part.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from pydantic import Field, PositiveInt

from eunoe.core.rng import generator
from eunoe.core.tasks import CLASSES
from eunoe.data.checks import Integers
from eunoe.data.streams.base import Changes, Stream, Timeline, phases_from
from eunoe.errors import InputError

if TYPE_CHECKING:
    from eunoe.data.federation import Federation


class ClassPhases(Stream):
    """New classes appear in phases; a client trains on all classes so far, or on the newest only."""

    tasks = CLASSES

    phases: int = Field(5, ge=1, le=1000, description="Number of phases of the rounds and classes.")
    every: PositiveInt | None = Field(
        None, description="Rounds per phase; by default the rounds of the run are divided evenly."
    )
    keep: bool = Field(False, description="Whether samples of earlier phases stay.")
    shuffle: bool = Field(True, description="Whether classes come in a random order.")

    def resolve(self, rounds: int) -> "ClassPhases":
        return self.model_copy(update={"every": self.every or max(1, rounds // self.phases)})

    def bind(self, timeline: Timeline) -> Changes:
        classes = timeline.federation.classes
        if self.phases > classes:
            raise InputError(
                f"stream 'classes' cannot divide {classes} classes into {self.phases} phases; "
                f"set stream.phases to at most {classes}"
            )
        order = np.arange(classes)
        if self.shuffle:
            order = generator(timeline.seed, "stream classes").permutation(classes)
        groups = [group.tolist() for group in np.array_split(order, self.phases)]
        return ClassesInPhases(timeline.federation, groups, self.every or 1, self.keep)


class ClassesInPhases(Changes):
    """The classes of each phase."""

    def __init__(
        self, federation: "Federation", groups: Sequence[Sequence[int]], every: int, keep: bool
    ) -> None:
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

"""New classes in phases: federated class-incremental learning.

The classes are put in a random order (or that of their numbers) and cut into as many groups as there are
phases of equal length. In a phase a client trains on its samples of the groups so far, or of the newest
group alone; one without such samples waits.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from pydantic import Field, PositiveInt

from eunoe.core.rng import generator
from eunoe.core.tasks import CLASSES
from eunoe.data.changes import Changes, Integers
from eunoe.data.streams.base import Stream, Timeline, Unchanged, phases_from
from eunoe.errors import InputError

if TYPE_CHECKING:
    from eunoe.data.federation import Federation


class ClassPhases(Stream):
    """New classes appear in phases; a client trains on those so far, or on the newest alone."""

    tasks = CLASSES

    phases: int = Field(5, ge=1, le=1000, description="Into how many phases the rounds and classes are cut.")
    every: PositiveInt | None = Field(
        None, description="Rounds of a phase; by default the rounds of the run are cut evenly."
    )
    keep: bool = Field(False, description="Whether samples of earlier phases stay.")
    shuffle: bool = Field(True, description="Whether classes come in a random order.")

    def settled(self, rounds: int) -> "ClassPhases":
        return self.model_copy(update={"every": self.every or max(1, rounds // self.phases)})

    def bind(self, timeline: Timeline) -> Changes:
        classes = timeline.federation.classes
        if self.phases > classes:
            raise InputError(
                f"stream 'classes' cannot make {self.phases} phases of {classes} classes; "
                f"set stream.phases to at most {classes}"
            )
        order = np.arange(classes)
        if self.shuffle:
            order = generator(timeline.seed, "stream classes").permutation(classes)
        groups = [group.tolist() for group in np.array_split(order, self.phases)]
        return ClassesInPhases(timeline.federation, groups, self.every or 1, self.keep)


class ClassesInPhases(Unchanged):
    """Which classes there are in each phase."""

    def __init__(
        self, federation: "Federation", groups: Sequence[Sequence[int]], every: int, keep: bool
    ) -> None:
        self.groups, self.every, self.labels = groups, every, federation.data.train.y
        # Which classes are trained on, [phases, classes].
        self.trained = np.zeros((len(groups), federation.classes), dtype=bool)
        for phase, group in enumerate(groups):
            self.trained[phase:, group] = True
            if not keep:
                self.trained[phase] = False
                self.trained[phase, group] = True

    def rows(self, client: int, round: int, rows: Integers) -> Integers:
        labels = self.labels[torch.from_numpy(rows)].numpy()
        there: Integers = rows[self.trained[self.phase(round)][labels]]
        return there

    def phase(self, round: int) -> int:
        """Which phase a round is in; the last one goes on."""
        return min((round - 1) // self.every, len(self.groups) - 1)

    def phases(self, rounds: int) -> tuple[int, ...]:
        return phases_from((1 + number * self.every for number in range(len(self.groups))), rounds)

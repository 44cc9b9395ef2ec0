"""Differences by seed: what a change gains on the same seeds, with the interval that its mean lies in."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from eunoe.analysis.statistics import LEVEL, Interval, mean_std, paired_interval
from eunoe.analysis.tables import Table
from eunoe.core.tasks import Classification, Task
from eunoe.errors import InputError


@dataclass(frozen=True)
class Arm:
    """Runs of one setting: for each metric the number of every seed."""

    title: str
    values: Mapping[int, Mapping[str, float]]

    def of(self, metric: str) -> list[float]:
        """A metric over the seeds in their order."""
        return [self.values[seed].get(metric, float("nan")) for seed in sorted(self.values)]


class Paired:
    """Arms against the first of them, on the same seeds; one is better if its interval is above zero."""

    def __init__(self, arms: Sequence[Arm], task: type[Task] = Classification) -> None:
        self.task = task
        if len(arms) < 2:
            raise InputError(
                "differences by seed need runs of at least two settings, which differ not in the seed alone"
            )
        self.reference, *self.others = arms
        seeds = sorted(self.reference.values)
        for arm in self.others:
            if sorted(arm.values) != seeds:
                raise InputError(
                    f"{arm.title} has seeds {_listed(arm.values)} and {self.reference.title} has "
                    f"{_listed(seeds)}: paired differences need the same seeds"
                )
        if len(seeds) < 2:
            raise InputError("a paired interval needs at least two seeds; run more of them")

    def difference(self, title: str, metric: str | None = None) -> Interval:
        """What an arm gains over the first, by default in accuracy (or F1 or R²)."""
        metric = metric or self.task.metric
        for arm in self.others:
            if arm.title == title:
                return paired_interval(arm.of(metric), self.reference.of(metric))
        raise InputError(f"there is no {title!r} beside {self.reference.title!r}")

    def table(self, columns: Sequence[tuple[str, str, int]]) -> Table:
        """The first arm's means and the others' differences, in columns of a title, a metric and digits."""
        seeds = str(len(self.reference.values))
        first = [mean_std(self.reference.of(metric), digits) for _, metric, digits in columns]
        rows = [[self.reference.title, seeds, *first, ""]]
        for arm in self.others:
            cells = [
                paired_interval(arm.of(metric), self.reference.of(metric)).cell(digits)
                for _, metric, digits in columns
            ]
            rows.append([arm.title, seeds, *cells, self._verdict(arm)])
        note = (
            f"first row: mean ± std; below: mean difference from it by seed [{LEVEL:.0%} interval]; "
            f"better: the interval of {self.task.title} is above zero"
        )
        return Table(["run", "seeds", *(title for title, _, _ in columns), "better"], rows, note)

    def _verdict(self, arm: Arm) -> str:
        gain = self.difference(arm.title)
        return "yes" if gain.positive else "worse" if gain.negative else "no"

    def __repr__(self) -> str:
        main = (self.task.title, self.task.metric, 3)
        return self.table([main, ("forgetting", "forgetting", 4)]).text()


def _listed(seeds: Mapping[int, object] | Sequence[int]) -> str:
    return ", ".join(map(str, sorted(seeds)))

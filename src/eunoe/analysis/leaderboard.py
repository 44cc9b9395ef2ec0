"""The leaderboard of a suite: entries ranked by their gain over tuned FedAvg.

The gain of an entry in a setting is the mean over seeds of the difference in test accuracy to FedAvg on the
same seed. Settings are fixed: the gain on the suite is the mean over settings, and its interval comes from
the seeds alone (Student t, degrees of freedom by Welch and Satterthwaite).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from eunoe.analysis.statistics import NONE, UNKNOWN, Interval, interval, mean, mean_std
from eunoe.analysis.tables import Table

Row = Mapping[str, Any]
BASELINE = "fedavg"


def stratified_interval(groups: Sequence[Sequence[float]]) -> Interval:
    """Return the mean over groups of the mean of each, with a 95% interval from the variation within groups.

    Example::

        stratified_interval([[0.01, 0.03], [0.02, 0.04]]).points()  # "+2.5 points [-0.5, 5.5]"
    """
    if not groups:
        return UNKNOWN
    center = float(np.mean([np.mean(group) for group in groups]))
    variances = np.array([np.var(part, ddof=1) / len(part) if len(part) > 1 else np.nan for part in groups])
    if not (total := float(variances.sum())):
        return Interval(center, center, center)
    freedom = total**2 / sum(v**2 / (len(group) - 1) for v, group in zip(variances, groups, strict=True))
    return interval(center, float(np.sqrt(total)) / len(groups), freedom)


@dataclass(frozen=True)
class Standing:
    """An entry of the leaderboard with its numbers; `missing` are settings with the reason it was not run."""

    name: str
    gain: Interval
    balanced: Interval
    worst_client: Interval
    forgetting: float
    sent_forgetting: float
    rounds: str
    bytes: float
    samples: float
    by_setting: Mapping[str, float]
    missing: Mapping[str, str]


@dataclass(frozen=True)
class Leaderboard:
    """The rows of a suite: one for each entry, setting and seed."""

    title: str
    rows: Sequence[Row]
    settings: Sequence[str]

    @cached_property
    def standings(self) -> list[Standing]:
        """The entries, best first; those that were not run in every setting come last."""
        standings = [self._standing(name) for name in dict.fromkeys(row["entry"] for row in self.rows)]
        return sorted(standings, key=lambda each: (bool(each.missing), -each.gain.mean))

    def runs(self, entry: str, setting: str) -> dict[int, Row]:
        """Return the rows of an entry in a setting, by seed."""
        rows = [row for row in self.rows if row["entry"] == entry and row["setting"] == setting]
        return {row["seed"]: row for row in rows if "accuracy" in row}

    def pairs(self, entry: str, other: str) -> dict[str, list[tuple[Row, Row]]]:
        """Return the rows of two entries by setting, paired by the seeds that both have."""
        pairs = {}
        for setting in self.settings:
            ours, theirs = self.runs(entry, setting), self.runs(other, setting)
            if both := [(row, theirs[seed]) for seed, row in ours.items() if seed in theirs]:
                pairs[setting] = both
        return pairs

    def difference(self, entry: str, other: str, key: str = "accuracy") -> Interval:
        """Return by how much an entry exceeds another, in the settings and on the seeds that both have."""
        groups = [
            [a[key] - b[key] for a, b in pairs if a[key] is not None and b[key] is not None]
            for pairs in self.pairs(entry, other).values()
        ]
        return stratified_interval([group for group in groups if group])

    def _standing(self, name: str) -> Standing:
        runs = {setting: self.runs(name, setting) for setting in self.settings}
        rows = [row for group in runs.values() for row in group.values()]
        reasons = {r["setting"]: r["reason"] for r in self.rows if r["entry"] == name and "reason" in r}
        by_setting = self.pairs(name, BASELINE)
        pairs = [pair for group in by_setting.values() for pair in group]
        return Standing(
            name,
            gain=self.difference(name, BASELINE),
            balanced=self.difference(name, BASELINE, "balanced"),
            worst_client=self.difference(name, BASELINE, "worst_client"),
            forgetting=_mean_known(rows, "forgetting"),
            sent_forgetting=_mean_known(rows, "sent_forgetting"),
            rounds=_rounds_to_baseline(pairs),
            bytes=mean([row["bytes"] / base["bytes"] for row, base in pairs if base["bytes"]]),
            samples=mean([row["samples"] / base["samples"] for row, base in pairs if base["samples"]]),
            by_setting={
                setting: float(np.mean([row["accuracy"] - base["accuracy"] for row, base in group]))
                for setting, group in by_setting.items()
                if len(group) == len(runs[setting])
            },
            missing={setting: reasons.get(setting, "not run") for setting in runs if not runs[setting]},
        )

    def describe(self, name: str) -> str:
        """Describe the rank of an entry in one sentence."""
        complete = [each for each in self.standings if not each.missing]
        names = [each.name for each in complete]
        if name not in names:
            (standing,) = [each for each in self.standings if each.name == name]
            setting, reason = next(iter(standing.missing.items()))
            return f"{name} is not ranked: not applicable in {setting!r} ({reason})"
        rank = names.index(name)
        same = [
            other
            for other in names
            if other != name and not (gap := self.difference(name, other)).positive and not gap.negative
        ]
        place = rank + 1
        suffix = "th" if place % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(place % 10, "th")
        words = f"{name} is {place}{suffix} of {len(names)}; {complete[rank].gain.points()} over FedAvg"
        return f"{words}; not different from {', '.join(same[:3])}." if same else f"{words}."

    def table(self) -> Table:
        """Return the table of standings."""
        columns: dict[str, Callable[[Standing], str]] = {
            "entry": lambda each: f"{each.name} (not in {len(each.missing)})" if each.missing else each.name,
            "gain": lambda each: each.gain.points(""),
            "balanced": lambda each: each.balanced.points(""),
            "worst clients": lambda each: each.worst_client.points(""),
            "forgetting": lambda each: mean_std([100 * each.forgetting], 1),
            "of sent model": lambda each: mean_std([100 * each.sent_forgetting], 1),
            "rounds": lambda each: each.rounds,
            "bytes": lambda each: f"{each.bytes:.1f}",
            "compute": lambda each: f"{each.samples:.1f}",
        }
        rows = [[format(each) for format in columns.values()] for each in self.standings]
        note = (
            f"{self.title}; gain over tuned FedAvg in points of test accuracy with 95% intervals from seeds, "
            "mean over settings; forgetting in points per round; rounds: share after which FedAvg's final "
            "validation accuracy is reached, and in how many runs; bytes and compute relative to FedAvg"
        )
        return Table(list(columns), rows, note)


def _mean_known(rows: Sequence[Row], key: str) -> float:
    return mean([row[key] for row in rows if row[key] is not None])


def _rounds_to_baseline(pairs: Sequence[tuple[Row, Row]]) -> str:
    """Format the share of rounds after which FedAvg's final validation accuracy is reached."""
    shares, reached = [], 0
    for row, base in pairs:
        rounds, values = row["curve"]
        first = [at for at, value in zip(rounds, values, strict=True) if value >= base["validation"]]
        reached += bool(first)
        shares.append(first[0] / rounds[-1] if first else 1.0)
    return f"{np.mean(shares):.0%} ({reached} of {len(shares)})" if shares else NONE

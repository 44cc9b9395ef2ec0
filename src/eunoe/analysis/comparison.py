"""Comparison of runs over seeds: a table with a row per configuration, and paired differences."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from eunoe.analysis import statistics
from eunoe.analysis.by_client import ByClient
from eunoe.analysis.divergence import divergence, over_seeds, usefulness
from eunoe.analysis.statistics import LEVEL, Interval, mean_std, paired_interval
from eunoe.analysis.tables import Table
from eunoe.core.batches import count_trained_samples
from eunoe.core.tasks import EVERY, Classification, Task, TaskName
from eunoe.errors import InputError, nearest
from eunoe.store.reader import label_runs
from eunoe.store.run_records import RunRecords
from eunoe.text import read_data

# Shown for a run that diverged.
NOT_CONVERGED = "NC"


@dataclass(frozen=True)
class Column:
    """A column of runs with one of its tasks: its title, the metric and its format."""

    title: str
    metric: str
    digits: int = 3
    # Where rounds record a metric that is compared by the mean of the last rounds.
    path: str = ""
    # Omitted if no run has the metric.
    optional: bool = False
    tasks: Sequence[TaskName] = EVERY
    # For the legend.
    note: str = ""


_DATA = read_data("eunoe.analysis", "columns.toml")
MAIN, FURTHER = (tuple(Column(**column) for column in _DATA[part]) for part in ("main", "further"))
COLUMNS = (*MAIN, *FURTHER)


@dataclass(frozen=True)
class Arm:
    """Runs that differ in their seed only; if one diverged or failed, all values but the seconds are NaN."""

    title: str
    seeds: tuple[int, ...]
    ended: str
    values: Mapping[str, Sequence[float]]

    def of(self, metric: str) -> Sequence[float]:
        """Return a metric by seed; NaN if it was not measured."""
        return self.values.get(metric, [math.nan] * len(self.seeds))

    def mean(self, metric: str) -> float:
        """Return the mean over the seeds; NaN if it was not measured."""
        return statistics.mean(self.of(metric))

    @property
    def traffic(self) -> float:
        """The megabytes of a round, both ways."""
        return self.mean("up") + self.mean("down")

    def cell(self, column: Column) -> str:
        """Format mean ± standard deviation; for a run that diverged or failed, how it ended."""
        if self.ended and column.metric != "seconds":
            return self.ended
        return mean_std(self.of(column.metric), column.digits)


class Comparison:
    """Runs side by side; the main numbers as text, all of them in a notebook."""

    def __init__(self, runs: Sequence[RunRecords], names: Sequence[str] = ()) -> None:
        groups: dict[str, list[RunRecords]] = {}
        for run in label_runs(runs, names):
            groups.setdefault(run.label, []).append(run)
        self._runs = list(runs)
        self._groups = [sorted(group, key=lambda run: run.checked_config.seed) for group in groups.values()]
        self.rows = [make_arm(group[0].label, group) for group in self._groups]
        own = dict.fromkeys(name for run in runs for name in run.own_metrics)
        self.columns = tuple(
            column
            for column in (
                *_name_score(COLUMNS, runs),
                *(Column(name.removesuffix(".value"), name, 4, name) for name in own),
            )
            if self._has(column)
        )

    def _has(self, column: Column) -> bool:
        measured = any(np.isfinite(row.of(column.metric)).any() for row in self.rows)
        return (measured or not column.optional) and any(run.task.name in column.tasks for run in self._runs)

    def select(self, columns: Sequence[Column] | None) -> Sequence[Column]:
        """Return those of these columns that the runs have; by default all that they have."""
        known = {column.metric: column for column in self.columns}
        return self.columns if columns is None else [known[c.metric] for c in columns if c.metric in known]

    def table(self, columns: Sequence[Column] | None = None) -> Table:
        """Return the numbers as a table of text: all columns, or the selected ones."""
        shown = self.select(columns)
        rows = [[row.title, str(len(row.seeds)), *(row.cell(each) for each in shown)] for row in self.rows]
        return Table(["run", "seeds", *(column.title for column in shown)], rows, legend(self._runs, shown))

    def warnings(self) -> list[str]:
        """Return a sentence for each configuration whose models are useless or miss classes."""
        words = [over_seeds([usefulness(run).sentence for run in group]) for group in self._groups]
        return [f"{row.title}: {t}" for row, t in zip(self.rows, words, strict=True) if t and not row.ended]

    def paired(self) -> "Paired":
        """Return the gain of each configuration over the first, paired by seed, with intervals."""
        for row, group in zip(self.rows, self._groups, strict=True):
            if len(row.seeds) < len(group):
                raise InputError(f"{row.title} has several runs with the same seed: pass each run once")
        tasks = {run.task for run in self._runs}
        if len(tasks) > 1:
            raise InputError("runs of different tasks cannot be compared: they have no metric in common")
        return Paired(self.rows, tasks.pop() if tasks else Classification)

    def by_client(self, metric: str | None = None) -> ByClient:
        """Return each client's accuracy (or loss) in every configuration."""
        return ByClient(dict(zip([row.title for row in self.rows], self._groups, strict=True)), metric)

    def find_columns(self, names: Sequence[str]) -> list[Column]:
        """Return the columns of these titles or metrics."""
        known = {name: column for column in self.columns for name in (column.metric, column.title)}
        # A metric on several sets is by default that on the test set.
        for column in sorted(self.columns, key=lambda column: not column.title.endswith(".test")):
            known.setdefault(column.title.split(".")[0], column)
        for name in names:
            if name not in known:
                raise InputError(f"there is no column {name!r}: {nearest(name, known)}")
        return [known[name] for name in names]

    def __repr__(self) -> str:
        return "\n".join([self.table(MAIN).text(), *self.warnings()])

    def _repr_html_(self) -> str:
        return self.table().html()


class Paired:
    """Arms against the first, on the same seeds; an arm is better if its interval is above zero."""

    def __init__(self, arms: Sequence[Arm], task: type[Task] = Classification) -> None:
        if len(arms) < 2:
            raise InputError("paired differences need at least two configurations, got one")
        self.task = task
        self.reference, *self.others = arms
        for arm in self.others:
            if arm.seeds != self.reference.seeds:
                raise InputError(
                    f"{arm.title} has seeds {', '.join(map(str, arm.seeds))} and {self.reference.title} has "
                    f"{', '.join(map(str, self.reference.seeds))}: paired differences need the same seeds"
                )

    def difference(self, title: str, metric: str | None = None) -> Interval:
        """Return the gain of an arm over the first, by default in accuracy (or F1 or R²)."""
        for arm in self.others:
            if arm.title == title:
                return self._gain(arm, metric or self.task.metric)
        raise InputError(f"no configuration {title!r} to compare with {self.reference.title!r}")

    def _gain(self, arm: Arm, metric: str) -> Interval:
        return paired_interval(arm.of(metric), self.reference.of(metric))

    def table(self, columns: Sequence[Column]) -> Table:
        """Return the first arm's means and the others' gains."""
        seeds = str(len(self.reference.seeds))
        first = [mean_std(self.reference.of(column.metric), column.digits) for column in columns]
        rows = [[self.reference.title, seeds, *first, ""]]
        for arm in self.others:
            gain = self._gain(arm, self.task.metric)
            verdict = "yes" if gain.positive else "worse" if gain.negative else "no"
            cells = [self._gain(arm, column.metric).cell(column.digits) for column in columns]
            rows.append([arm.title, seeds, *cells, verdict])
        note = (
            f"first row: mean ± std; below: mean difference from it by seed [{LEVEL:.0%} interval]; "
            f"better: the interval of {self.task.title} is above zero"
        )
        return Table(["run", "seeds", *(column.title for column in columns), "better"], rows, note)

    def __repr__(self) -> str:
        main = Column(self.task.title, self.task.metric)
        return self.table([main, Column("forgetting", "forgetting", 4)]).text()


def numbers(run: RunRecords) -> dict[str, float]:
    """Return the numbers of one run that are compared."""
    config = run.checked_config
    # A run that was only observed has no sizes, and its cost is unknown.
    rounds, sizes = run.known("sizes")
    pairs = zip(sizes, run.known("steps")[1], strict=True)
    trained = Counter(client for pair in pairs for client in zip(*pair, strict=True))
    plain = sum(count * count_trained_samples(*client, config.training) for client, count in trained.items())
    counted = ("bytes_up", "bytes_down", "forwards", "backwards")
    total = {name: float(sum(run.known(name)[1])) for name in counted}
    at_end = {
        column.metric: run.final(column.path.format(metric=run.task.metric))
        for column in COLUMNS
        if column.path and run.task.name in column.tasks
    }
    return {
        **at_end,
        "score": at_end["score"] if config.evaluation.metric else math.nan,
        "forgetting": run.round_forgetting,
        "sent_forgetting": run.sent_forgetting,
        "epsilon": run.latest("privacy.epsilon"),
        "up": total["bytes_up"] / 1e6 / (len(rounds) or math.nan),
        "down": total["bytes_down"] / 1e6 / (len(rounds) or math.nan),
        "passes": (total["forwards"] + 2 * total["backwards"]) / (3 * plain) if plain else math.nan,
        "seconds": run.status.get("seconds", math.nan),
        **{name: run.final(name) for name in run.own_metrics},
    }


def legend(runs: Sequence[RunRecords], columns: Sequence[Column] = COLUMNS) -> str:
    """Return one line that explains the numbers of the columns."""
    last = {min(max(run.checked_config.evaluation.last, 1), len(run.metrics)) for run in runs}
    rounds = f"last {last.pop()}" if len(last) == 1 else "last"
    lengths = sorted({len(run.metrics) for run in runs})
    words = [f"the runs are of different length: {', '.join(map(str, lengths))} rounds"] * (len(lengths) > 1)
    main, known = ({column.metric for column in group} for group in (MAIN, COLUMNS))
    means = dict.fromkeys(
        column.title + " on the test set" * (column.metric in main)
        if column.metric in known
        else "own metrics"
        for column in columns
        if column.path
    )
    words += [f"{', '.join(means)}: mean of the {rounds} rounds"] if means else []
    return "; ".join([*words, *dict.fromkeys(column.note for column in columns if column.note)])


def _name_score(columns: Sequence[Column], runs: Sequence[RunRecords]) -> list[Column]:
    """Return the columns with the score under the name of its metric, if that is the same in all runs."""
    metrics = {run.checked_config.evaluation.metric for run in runs} - {None}
    title = metrics.pop() if len(metrics) == 1 else None
    return [replace(each, title=title) if title and each.metric == "score" else each for each in columns]


def make_arm(title: str, members: Sequence[RunRecords]) -> Arm:
    """Return the numbers of the runs of one configuration, in order of seed."""
    failed = any(run.status["state"] == "failed" for run in members)
    ended = NOT_CONVERGED if any(divergence(run) for run in members) else "failed" if failed else ""
    each = [numbers(run) for run in members]
    values = {
        metric: [math.nan if ended and metric != "seconds" else own.get(metric, math.nan) for own in each]
        for metric in dict.fromkeys(metric for own in each for metric in own)
    }
    return Arm(title, tuple(sorted({run.checked_config.seed for run in members})), ended, values)

"""Comparison of runs over seeds: a table with a row per configuration, and paired differences."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eunoe.analysis import statistics
from eunoe.analysis.by_client import ByClient, ClientMetric
from eunoe.analysis.divergence import divergence
from eunoe.analysis.statistics import LEVEL, Interval, mean_std, paired_interval
from eunoe.analysis.tables import Table
from eunoe.core.batches import count_trained_samples
from eunoe.core.tasks import Classification, Task, TaskName
from eunoe.errors import InputError, nearest
from eunoe.store.reader import flat_options, group_key
from eunoe.store.run_records import RunRecords

# Shown for a run that diverged.
NOT_CONVERGED = "NC"


@dataclass(frozen=True)
class Column:
    """A column: its title, the metric and its format.

    An optional one is omitted if no run has the metric; that of a task, if no run has the task.
    """

    title: str
    metric: str
    digits: int = 3
    optional: bool = False
    task: TaskName | None = None


MAIN = (
    Column("accuracy", "accuracy", task="classification"),
    Column("macro-F1", "f1", task="multilabel"),
    Column("R²", "r2", task="regression"),
    Column("RMSE", "rmse", task="regression"),
    Column("loss", "loss", optional=True),
    Column("forgetting", "forgetting", 4),
    Column("forgetting of clients' model", "sent_forgetting", 4, optional=True),
)
FURTHER = (
    Column("FedNTD score", "fedntd"),
    Column("worst tenth", "worst_tenth"),
    Column("on clients' tests", "client_test", optional=True),
    Column("on own mix", "without_prior", optional=True),
    Column("with prior", "with_prior", optional=True),
    Column("epsilon", "epsilon", 2, optional=True),
    Column("MB up", "up", 2),
    Column("MB down", "down", 2),
    Column("passes", "passes", 2),
    Column("seconds", "seconds", 1),
)
COLUMNS = (*MAIN, *FURTHER)


@dataclass(frozen=True)
class Arm:
    """Runs that differ in their seed only: how they ended, and the values of each metric in order of seed."""

    title: str
    seeds: tuple[int, ...]
    ended: str
    values: Mapping[str, Sequence[float]]

    def of(self, metric: str) -> Sequence[float]:
        """Return a metric by seed; NaN if it was not measured or a run diverged or failed."""
        unknown = [math.nan] * len(self.seeds)
        return unknown if self.ended and metric != "seconds" else self.values.get(metric, unknown)

    def mean(self, metric: str) -> float:
        """Return the mean over the seeds; NaN if it was not measured or a run diverged or failed."""
        return statistics.mean(self.of(metric))

    def std(self, metric: str) -> float:
        """Return the standard deviation over the seeds (n - 1)."""
        return math.nan if self.ended and metric != "seconds" else statistics.deviation(self.of(metric))

    def cell(self, column: Column) -> str:
        """Format mean ± standard deviation, or how the run ended if it has none."""
        if self.ended and column.metric != "seconds":
            return self.ended
        return mean_std(self.of(column.metric), column.digits)


class Comparison:
    """Runs side by side; the main numbers as text, all of them in a notebook."""

    def __init__(self, runs: Sequence[RunRecords]) -> None:
        groups: dict[str, list[RunRecords]] = {}
        for run in runs:
            groups.setdefault(group_key(run.checked_config), []).append(run)
        self._runs = list(runs)
        self._groups = [sorted(group, key=lambda run: run.checked_config.seed) for group in groups.values()]
        titles = _titles([group[0] for group in self._groups])
        self.rows = [_arm(*pair) for pair in zip(titles, self._groups, strict=True)]
        own = dict.fromkeys(name for run in runs for name in run.own_metrics)
        self.columns = tuple(
            column for column in (*COLUMNS, *(Column(name, name, 4) for name in own)) if self._has(column)
        )

    def _has(self, column: Column) -> bool:
        if column.task is not None:
            return any(run.task.name == column.task for run in self._runs)
        return not column.optional or any(np.isfinite(row.values[column.metric]).any() for row in self.rows)

    def table(self, columns: Sequence[Column] | None = None) -> Table:
        """Return the numbers as a table of text: all columns, or the selected ones."""
        shown = self.columns if columns is None else [column for column in columns if column in self.columns]
        rows = [
            [row.title, str(len(row.seeds)), *(row.cell(column) for column in shown)] for row in self.rows
        ]
        return Table(["run", "seeds", *(column.title for column in shown)], rows, legend(self._runs, shown))

    def paired(self) -> "Paired":
        """Return the gain of each configuration over the first, paired by seed, with intervals."""
        for row, group in zip(self.rows, self._groups, strict=True):
            if len(row.seeds) < len(group):
                raise InputError(f"{row.title} has more than one run of a seed; name each run once")
        tasks = {run.task for run in self._runs}
        if len(tasks) > 1:
            raise InputError("runs of different tasks cannot be compared: they have no metric in common")
        return Paired(self.rows, tasks.pop() if tasks else Classification)

    def by_client(self, metric: ClientMetric | None = None) -> ByClient:
        """Return each client's accuracy (or loss) in every configuration."""
        titles = [row.title for row in self.rows]
        return ByClient(dict(zip(titles, self._groups, strict=True)), metric)

    def named(self, names: Sequence[str]) -> list[Column]:
        """Return the columns of these titles or metrics."""
        known = {name: column for column in self.columns for name in (column.metric, column.title)}
        for name in names:
            if name not in known:
                raise InputError(f"there is no column {name!r}: {nearest(name, known)}")
        return [known[name] for name in names]

    def __repr__(self) -> str:
        return self.table(MAIN).text()

    def _repr_html_(self) -> str:
        return self.table().html()


class Paired:
    """Arms against the first, on the same seeds; an arm is better if its interval is above zero."""

    def __init__(self, arms: Sequence[Arm], task: type[Task] = Classification) -> None:
        self.task = task
        if len(arms) < 2:
            raise InputError("paired differences need at least two configurations, not only several seeds")
        self.reference, *self.others = arms
        seeds = self.reference.seeds
        for arm in self.others:
            if arm.seeds != seeds:
                raise InputError(
                    f"{arm.title} has seeds {', '.join(map(str, arm.seeds))} and {self.reference.title} has "
                    f"{', '.join(map(str, seeds))}: paired differences need the same seeds"
                )
        if len(seeds) < 2:
            raise InputError("a paired interval needs at least two seeds; run more of them")

    def difference(self, title: str, metric: str | None = None) -> Interval:
        """Return the gain of an arm over the first, by default in accuracy (or F1 or R²)."""
        for arm in self.others:
            if arm.title == title:
                return self._gain(arm, metric or self.task.metric)
        raise InputError(f"there is no {title!r} beside {self.reference.title!r}")

    def _gain(self, arm: Arm, metric: str) -> Interval:
        return paired_interval(arm.of(metric), self.reference.of(metric))

    def table(self, columns: Sequence[tuple[str, str, int]]) -> Table:
        """Return the first arm's means and the others' gains, in columns of a title, a metric and digits."""
        seeds = str(len(self.reference.seeds))
        first = [mean_std(self.reference.of(metric), digits) for _, metric, digits in columns]
        rows = [[self.reference.title, seeds, *first, ""]]
        for arm in self.others:
            gain = self._gain(arm, self.task.metric)
            verdict = "yes" if gain.positive else "worse" if gain.negative else "no"
            cells = [self._gain(arm, metric).cell(digits) for _, metric, digits in columns]
            rows.append([arm.title, seeds, *cells, verdict])
        note = (
            f"first row: mean ± std; below: mean difference from it by seed [{LEVEL:.0%} interval]; "
            f"better: the interval of {self.task.title} is above zero"
        )
        return Table(["run", "seeds", *(title for title, _, _ in columns), "better"], rows, note)

    def __repr__(self) -> str:
        main = (self.task.title, self.task.metric, 3)
        return self.table([main, ("forgetting", "forgetting", 4)]).text()


def numbers(run: RunRecords) -> dict[str, float]:
    """Return the numbers of one run that are compared."""
    training = run.checked_config.training
    # A run that was only observed has no sizes, and its cost is unknown.
    rounds, sizes = run.known("sizes")
    pairs = zip(sizes, run.known("steps")[1], strict=True)
    trained = Counter(client for pair in pairs for client in zip(*pair, strict=True))
    plain = sum(
        count * count_trained_samples(size, steps, training) for (size, steps), count in trained.items()
    )
    counted = ("bytes_up", "bytes_down", "forwards", "backwards")
    total = {name: float(sum(run.known(name)[1])) for name in counted}
    return {
        "accuracy": run.final("test.accuracy"),
        # Classification is compared by accuracy alone, as its papers do.
        **{
            name: math.nan if run.task is Classification else run.final(f"test.{name}")
            for name in ("f1", "r2", "rmse", "loss")
        },
        "forgetting": run.round_forgetting,
        "sent_forgetting": run.sent_forgetting,
        "fedntd": run.final("forgetting.fedntd"),
        "worst_tenth": run.final("validation.clients.worst_tenth"),
        "client_test": run.final(f"client_test.{run.task.metric}"),
        "without_prior": run.final("personal.without_prior"),
        "with_prior": run.final("personal.with_prior"),
        "epsilon": run.latest("privacy.epsilon"),
        "up": total["bytes_up"] / 1e6 / (len(rounds) or math.nan),
        "down": total["bytes_down"] / 1e6 / (len(rounds) or math.nan),
        "passes": (total["forwards"] + 2 * total["backwards"]) / (3 * plain) if plain else math.nan,
        "seconds": run.status.get("seconds", float("nan")),
        **{name: run.final(name) for name in run.own_metrics},
    }


def legend(runs: Sequence[RunRecords], columns: Sequence[Column] = COLUMNS) -> str:
    """Return one line that explains the numbers of the columns."""
    last = {min(max(run.checked_config.evaluation.last, 1), len(run.metrics)) for run in runs}
    rounds = f"last {last.pop()}" if len(last) == 1 else "last"
    lengths = sorted({len(run.metrics) for run in runs})
    shown = {column.metric for column in columns}
    words = [f"the runs are of different length: {', '.join(map(str, lengths))} rounds"] * (len(lengths) > 1)
    at_end = {
        **{column.metric: f"{column.title} on the test set" for column in MAIN[:5]},
        "fedntd": "FedNTD score",
        "worst_tenth": "worst tenth (of clients)",
        **dict.fromkeys(shown - {column.metric for column in COLUMNS}, "own metrics"),
    }
    means = list(dict.fromkeys(text for metric, text in at_end.items() if metric in shown))
    words += [f"{', '.join(means)}: mean of the {rounds} rounds"] if means else []
    words += ["forgetting: mean of all rounds"] * ("forgetting" in shown)
    words += ["clients' model: the newest, not the mean that is evaluated"] * ("sent_forgetting" in shown)
    words += ["MB: a round"] * ("up" in shown or "down" in shown)
    words += ["passes: work against plain training"] * ("passes" in shown)
    return "; ".join(words)


def _arm(title: str, members: Sequence[RunRecords]) -> Arm:
    failed = any(run.status["state"] == "failed" for run in members)
    ended = NOT_CONVERGED if any(divergence(run) for run in members) else "failed" if failed else ""
    each = [numbers(run) for run in members]
    metrics = dict.fromkeys(metric for values in each for metric in values)
    values = {metric: [values.get(metric, math.nan) for values in each] for metric in metrics}
    return Arm(title, tuple(sorted({run.checked_config.seed for run in members})), ended, values)


def _titles(groups: Sequence[RunRecords]) -> list[str]:
    """Return a title for each group; equal titles are told apart by the options in which the runs differ."""
    titled = [(run.checked_config.title, flat_options(run.checked_config)) for run in groups]
    alike: dict[str, list[dict[str, Any]]] = {}
    for title, options in titled:
        alike.setdefault(title, []).append(options)
    varying = {title: _varying(members) for title, members in alike.items()}
    return [
        ", ".join([title, *(f"{key}={options.get(key, 'none')}" for key in varying[title])])
        for title, options in titled
    ]


def _varying(members: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the options that are not the same in all of them."""
    first, keys = members[0], {key for options in members for key in options}
    return sorted(key for key in keys if any(options.get(key) != first.get(key) for options in members))

"""Comparison of runs: a row per configuration, aggregated over seeds."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from eunoe.analysis import statistics
from eunoe.analysis.by_client import ByClient, ClientMetric
from eunoe.analysis.divergence import divergence
from eunoe.analysis.paired import Arm, Paired
from eunoe.analysis.tables import Table
from eunoe.core.batches import count_trained_samples
from eunoe.core.tasks import Classification, TaskName
from eunoe.errors import InputError, nearest
from eunoe.store.groups import group_key, settings
from eunoe.store.run_records import RunRecords

# Shown for a run that diverged.
NOT_CONVERGED = "NC"


@dataclass(frozen=True)
class Column:
    """A number of a run and its format; an optional one is omitted if no run has it, that of a task if no run
    is of the task."""

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
class Row:
    """Runs that differ in their seed only: how they ended, and the values of each metric over the seeds."""

    title: str
    seeds: tuple[int, ...]
    ended: str
    values: Mapping[str, Sequence[float]]

    def mean(self, metric: str) -> float:
        """The mean over the seeds; NaN if it was not measured or a run diverged or failed."""
        return math.nan if self._void(metric) else statistics.mean(self.values.get(metric, ()))

    def std(self, metric: str) -> float:
        """The standard deviation over the seeds (n - 1)."""
        return math.nan if self._void(metric) else statistics.deviation(self.values.get(metric, ()))

    def cell(self, column: Column) -> str:
        """Mean ± standard deviation, or how the run ended if it has none."""
        if self._void(column.metric):
            return self.ended
        return statistics.mean_std(self.values.get(column.metric, ()), column.digits)

    def _void(self, metric: str) -> bool:
        return bool(self.ended) and metric != "seconds"


class Comparison:
    """Runs side by side; the main numbers as text, all of them in a notebook."""

    def __init__(self, runs: Sequence[RunRecords]) -> None:
        groups: dict[str, list[RunRecords]] = {}
        for run in runs:
            groups.setdefault(group_key(run.checked_config), []).append(run)
        titles = _titles([members[0] for members in groups.values()])
        self.rows = [_row(*pair) for pair in zip(titles, groups.values(), strict=True)]
        self._runs, self._groups = list(runs), list(groups.values())
        own = dict.fromkeys(name for run in runs for name in run.own_metrics)
        self.columns = tuple(
            column for column in (*COLUMNS, *(Column(name, name, 4) for name in own)) if self._has(column)
        )

    def _has(self, column: Column) -> bool:
        if column.task is not None:
            return any(run.task.name == column.task for run in self._runs)
        return not column.optional or any(np.isfinite(row.values[column.metric]).any() for row in self.rows)

    def table(self, columns: Sequence[Column] | None = None) -> Table:
        """The numbers as a table of text: all columns, or the selected ones."""
        shown = self.columns if columns is None else [one for one in columns if one in self.columns]
        rows = [
            [row.title, str(len(row.seeds)), *(row.cell(column) for column in shown)] for row in self.rows
        ]
        return Table(["run", "seeds", *(column.title for column in shown)], rows, legend(self._runs, shown))

    def paired(self) -> Paired:
        """What each setting gains over the first, seed by seed, with the intervals of the means."""
        arms = []
        for row, members in zip(self.rows, self._groups, strict=True):
            seeds = [run.checked_config.seed for run in members]
            if len(set(seeds)) < len(seeds):
                raise InputError(f"{row.title} has more than one run of a seed; name each run once")
            void = row.ended or None
            found = {seed: {} if void else numbers(run) for seed, run in zip(seeds, members, strict=True)}
            arms.append(Arm(row.title, found))
        tasks = {run.task for run in self._runs}
        if len(tasks) > 1:
            raise InputError("runs of different tasks have no number in common that could be compared")
        return Paired(arms, tasks.pop() if tasks else Classification)

    def by_client(self, metric: ClientMetric | None = None) -> ByClient:
        """Each client's accuracy (or loss) in every setting: who gains and who pays."""
        titles = [row.title for row in self.rows]
        return ByClient(dict(zip(titles, self._groups, strict=True)), metric)

    def named(self, names: Sequence[str]) -> list[Column]:
        """The columns of these titles or metrics."""
        known = {name: column for column in self.columns for name in (column.metric, column.title)}
        for name in names:
            if name not in known:
                raise InputError(f"there is no column {name!r}: {nearest(name, known)}")
        return [known[name] for name in names]

    def __repr__(self) -> str:
        return self.table(MAIN).text()

    def _repr_html_(self) -> str:
        return self.table().html()


def numbers(run: RunRecords) -> dict[str, float]:
    """The numbers of one run that are compared."""
    # The cost of a federation that was only observed is unknown.
    training = run.checked_config.training
    rows, sizes = run.known("sizes")
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
        "up": total["bytes_up"] / 1e6 / (len(rows) or math.nan),
        "down": total["bytes_down"] / 1e6 / (len(rows) or math.nan),
        "passes": (total["forwards"] + 2 * total["backwards"]) / (3 * plain) if plain else math.nan,
        "seconds": run.status.get("seconds", float("nan")),
        **{name: run.final(name) for name in run.own_metrics},
    }


def legend(runs: Sequence[RunRecords], columns: Sequence[Column] = COLUMNS) -> str:
    """One line that explains the numbers of the columns."""
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


def _row(title: str, members: Sequence[RunRecords]) -> Row:
    failed = any(run.status["state"] == "failed" for run in members)
    ended = NOT_CONVERGED if any(divergence(run) for run in members) else "failed" if failed else ""
    found = [numbers(run) for run in members]
    metrics = dict.fromkeys(metric for one in found for metric in one)
    values = {metric: [one.get(metric, math.nan) for one in found] for metric in metrics}
    return Row(title, tuple(sorted({run.checked_config.seed for run in members})), ended, values)


def _titles(groups: Sequence[RunRecords]) -> list[str]:
    """A title for each group; equal titles are distinguished by the options in which the runs differ."""
    alike: dict[str, list[dict[str, Any]]] = {}
    found = [(run.checked_config.title, settings(run.checked_config)) for run in groups]
    for title, options in found:
        alike.setdefault(title, []).append(options)
    varying = {title: _varying(members) for title, members in alike.items()}
    return [
        ", ".join([title, *(f"{key}={options.get(key, 'none')}" for key in varying[title])])
        for title, options in found
    ]


def _varying(members: Sequence[Mapping[str, Any]]) -> list[str]:
    """The options that are not the same in all of them."""
    first, keys = members[0], {key for one in members for key in one}
    return sorted(key for key in keys if any(one.get(key) != first.get(key) for one in members))

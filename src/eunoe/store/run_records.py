"""The records of one run as arrays: curves, results and the numbers of each class and client."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eunoe.config.schema import Config, make_config
from eunoe.config.settings import flatten
from eunoe.core.tasks import TASKS, Classification, Task
from eunoe.errors import Damaged, InputError, nearest
from eunoe.metrics.forgetting import mean_at_end, mean_over_rounds
from eunoe.store.schema import RECORDED, ModelRecord

Array = NDArray[np.float64]
Positions = NDArray[np.int64]
Record = Mapping[str, Any]

# The phase of a stream that a round is in, and its first round: recorded by a metric, but no result.
PHASE = {"phases.phase", "phases.began"}


def numbers(values: Any) -> Array:
    """Return nested lists as an array, None as NaN."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise Damaged("a run's records have rows of unequal length; restore the files") from None


def last_rounds(config: Mapping[str, Any]) -> int:
    """Return the number of last rounds that a config's results are averaged over."""
    return max(int(config.get("evaluation", {}).get("last", 1)), 1)


def count_participants(record: Record) -> int:
    """Return how many clients took part in a round."""
    return int(record.get("participants", len(record.get("clients", ()))))


def task_of(section: Record) -> type[Task] | None:
    """Return the task whose main metric is in a section such as `test`; None if none is."""
    return next((task for task in TASKS if task.metric in section), None)


def main_value(section: Record) -> float:
    """Return the main metric of a section; NaN if it is missing."""
    value = section.get((task_of(section) or Classification).metric)
    return float("nan") if value is None else float(value)


def format_main_value(section: Record) -> str:
    """Format the main metric of a section with its name, as in "accuracy 0.912"."""
    return f"{(task_of(section) or Classification).title} {main_value(section):.3f}"


def common_task(tasks: Sequence[type[Task]]) -> type[Task]:
    """Return the task of several runs, for the words of their tables; classification if they differ."""
    return tasks[0] if len(set(tasks)) == 1 else Classification


def check_recorded(records: Iterable[Record], name: str) -> None:
    """Refuse a name such as "test.accuracy" that no round has; before the first round any is accepted."""
    known = {path for record in records for path in flatten(record)}
    if known and name not in known:
        raise InputError(f"no round of this run has {name!r}: {nearest(name, known)}")


@dataclass(frozen=True)
class RunRecords:
    """The records of one run; runs with the same label are seeds of one configuration."""

    label: str
    metrics: Sequence[Record]
    probes: Sequence[Record] = ()
    timings: Sequence[Record] = ()
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    label_counts: Array | None = None
    class_names: Sequence[str] | None = None
    client_names: Sequence[str] | None = None
    # Whether a Flower federation wrote it, which no command here can run again.
    flower: bool = False
    status: Mapping[str, Any] = field(default_factory=lambda: {"state": "running", "round": 0, "reason": ""})

    @property
    def observed(self) -> bool:
        """Whether it was measured in a custom loop or Flower project, and not run by Eunoe."""
        return "method" not in self.config

    @cached_property
    def checked_config(self) -> Config:
        """The configuration, validated."""
        return make_config(self.config)

    def known(self, *path: str) -> tuple[Positions, list[Any]]:
        """Return the positions of the records that have a value other than null at a path, and the values."""
        if path not in self._known:
            values: list[Any] = list(self.metrics)
            for key in path:
                values = [value.get(key) if isinstance(value, dict) else None for value in values]
            positions = np.flatnonzero([value is not None for value in values])
            self._known[path] = positions, [values[at] for at in positions]
        return self._known[path]

    @cached_property
    def _known(self) -> dict[tuple[str, ...], tuple[Positions, list[Any]]]:
        return {}

    def series(self, path: str) -> tuple[Positions, Array]:
        """Return the rounds that have a metric, such as "test.accuracy", and its values."""
        positions, known = self.known(*path.split("."))
        values = numbers(known) if known else np.empty(0)
        return self._rounds[positions], values[:, 0] if values.ndim > 1 and values.shape[1] == 1 else values

    @cached_property
    def _rounds(self) -> Positions:
        """The number of each record's round."""
        return np.array(self.known("round")[1], np.int64)

    def latest(self, path: str) -> float:
        """Return a metric in the last round that has it; NaN if none does."""
        _, values = self.series(path)
        return float(values[-1]) if len(values) else float("nan")

    def final(self, path: str) -> float:
        """Return the mean of a metric over the last `evaluation.last` rounds that have it."""
        rounds, values = self.series(path)
        return mean_at_end(values, rounds, self.checked_config.evaluation.last)

    @cached_property
    def task(self) -> type[Task]:
        """The task of the run's models, by what was measured or else by the loss."""
        for record in self.metrics:
            for section in filter(None, map(record.get, ("validation", "test", "client_test"))):
                if (task := task_of(section)) is not None:
                    return task
        loss = self.config.get("loss", {}).get("name")
        return next((task for task in TASKS if loss == task.loss), Classification)

    @property
    def score(self) -> float:
        """Mean test accuracy (multilabel: macro-F1, regression: R²) over the last rounds."""
        return self.final(f"test.{self.task.metric}")

    @property
    def round_forgetting(self) -> float:
        """Mean round forgetting over the whole run."""
        rounds, values = self.series("forgetting.round")
        return mean_over_rounds(values, rounds)

    @property
    def sent_forgetting(self) -> float:
        """Round forgetting of the model that clients receive, where another is evaluated; NaN elsewhere."""
        rounds, values = self.series("sent.forgetting.round")
        return mean_over_rounds(values, rounds)

    @cached_property
    def own_metrics(self) -> list[str]:
        """The paths of the numbers of metrics that the config names, such as `name.part`."""
        paths = set()
        for record in self.metrics:
            values = flatten({name: record[name] for name in record.keys() - RECORDED})
            # Of a value with its support, the value only.
            paths |= {
                path
                for path, value in values.items()
                if isinstance(value, int | float)
                and (path.endswith(".value") or f"{path.rpartition('.')[0]}.value" not in values)
            }
        return sorted(paths - PHASE)

    @cached_property
    def part(self) -> str:
        """The data behind the curves: the test set if every evaluation includes it, else validation sets."""
        judging = self.config.get("evaluation", {}).get("judging", False)
        tested = any(record.get("test") for record in self.metrics)
        return "test" if tested and not judging else "validation"

    @cached_property
    def measured(self) -> Positions:
        """The positions of the rounds with an evaluation, in order."""
        return np.flatnonzero([bool(record.get(self.part)) for record in self.metrics])

    @cached_property
    def rounds(self) -> list[int]:
        """The numbers of the measured rounds."""
        return self._rounds[self.measured].tolist()

    def curve(self, name: str) -> Array:
        """Return a number of the global model, such as accuracy or loss, over the measured rounds."""
        return self._measured(self.part, name)

    def _measured(self, *path: str) -> Array:
        """Return a number over the measured rounds; NaN where it is unknown."""
        positions, known = self.known(*path)
        values = np.full(len(self.metrics), np.nan)
        values[positions] = numbers(known)
        return values[self.measured]

    @property
    def last(self) -> int:
        """The number of last rounds that results are averaged over; 1 for a run that was only observed."""
        return last_rounds(self.config)

    @cached_property
    def per_class(self) -> Array:
        """Accuracy [measured rounds, classes] of the global model; empty if it was not recorded."""
        positions, known = self.known(self.part, "per_class")
        return numbers(known) if known and np.array_equal(positions, self.measured) else np.empty((0, 0))

    @cached_property
    def classes(self) -> int:
        """The number of classes that were measured; 0 if none were."""
        _, known = self.known(self.part, "per_class")
        probed = [record["start"] for record in self.probe("local_per_class")]
        return max(map(len, [*known, *probed]), default=0)

    @cached_property
    def lost_per_class(self) -> Array:
        """Accuracy lost by each class [rounds, classes] in rounds that follow a measured one; a gain is 0."""
        history = self.per_class
        # A loss over a gap of several rounds is not that of one round.
        following = np.diff(self.rounds[: len(history)]) == 1
        return np.maximum(history[:-1] - history[1:], 0.0)[following]

    def forgetting(self, name: str) -> Array:
        """Return round forgetting ("round") or FedNTD's score ("fedntd") over the measured rounds."""
        return self._measured("forgetting", name)

    def names(self, classes: int) -> list[str]:
        """Return the names of the classes, or their numbers."""
        names = self.class_names or ()
        return list(names) if len(names) >= max(classes, 1) else [str(label) for label in range(classes)]

    def probe(self, name: str) -> Iterator[Record]:
        """Yield the probes of one kind in order of round."""
        yield from sorted((p for p in self.probes if p["probe"] == name), key=lambda p: int(p["round"]))


def relabel(run: RunRecords, label: str) -> RunRecords:
    """Return a copy with another label; cached values are kept."""
    other = copy(run)
    vars(other)["label"] = label
    return other


def without_averaging(run: RunRecords, title: str) -> RunRecords:
    """Return a run with `averaging` as the run without it: by the numbers of the model sent to clients."""
    sections = {*ModelRecord.__annotations__, "sent"}
    metrics = [
        {**{key: value for key, value in record.items() if key not in sections}, **record.get("sent", {})}
        for record in run.metrics
    ]
    config = {key: value for key, value in run.config.items() if key != "averaging"}
    return replace(run, label=title, metrics=metrics, config={**config, "name": title})


def with_averaging(title: str) -> str:
    """Return the title of a run with averaging beside the same run without."""
    return f"{title} {'and' if ' with ' in title else 'with'} averaging"

"""The records of one run as arrays: curves, results and what was measured of each class and client."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eunoe.config.schema import Config, make_config
from eunoe.core.tasks import Task
from eunoe.errors import Damaged
from eunoe.metrics.forgetting import mean_at_end, mean_over_rounds
from eunoe.store.main_metric import task_of_run
from eunoe.store.schema import RECORDED

Array = NDArray[np.float64]
Positions = NDArray[np.int64]
Record = Mapping[str, Any]

# Which phase of a stream a round is in, and its first round.
PHASE = {"phases.phase", "phases.began"}


def numbers(values: Any) -> Array:
    """Nested lists as an array, None as NaN."""
    try:
        return np.array(values, dtype=np.float64)
    except (TypeError, ValueError):
        raise Damaged("a run's records hold lists of unequal lengths where a table should be") from None


def taking_part(record: Record) -> int:
    """How many clients took part in a round."""
    return int(record.get("participants", len(record["clients"])))


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
    # Whether a real federation made it, which no command here runs again.
    flower: bool = False
    status: Mapping[str, Any] = field(default_factory=lambda: {"state": "running", "round": 0, "reason": ""})

    @cached_property
    def checked_config(self) -> Config:
        """The configuration, validated."""
        return make_config(self.config)

    def known(self, *path: str) -> tuple[Positions, list[Any]]:
        """Return the positions of the records that have a value other than null at a path, and the values."""
        if path not in self._known:
            *sections, key = path
            values = [value.get(key) for value in self._nested(sections)]
            there = np.flatnonzero([value is not None for value in values])
            self._known[path] = there, [values[at] for at in there]
        return self._known[path]

    @cached_property
    def _known(self) -> dict[tuple[str, ...], tuple[Positions, list[Any]]]:
        return {}

    def _nested(self, sections: Sequence[str]) -> Sequence[Record]:
        """Return what each record has in a section of a section; empty where it has none."""
        records = self.metrics
        for key in sections:
            records = [value if isinstance(value := record.get(key), Mapping) else {} for record in records]
        return records

    def series(self, path: str) -> tuple[NDArray[np.int64], Array]:
        """The rounds that have a metric, such as "test.accuracy" or "forgetting.round", and its values."""
        rows, found = self.known(*path.split("."))
        values = numbers(found) if len(rows) else np.empty(0)
        return self._rounds[rows], values[:, 0] if values.ndim > 1 and values.shape[1] == 1 else values

    @cached_property
    def _rounds(self) -> NDArray[np.int64]:
        """The number of each record's round."""
        return np.array(self.known("round")[1], np.int64)

    def latest(self, path: str) -> float:
        """A metric in the last round that has it; NaN if none does."""
        _, values = self.series(path)
        return float(values[-1]) if len(values) else float("nan")

    def final(self, path: str) -> float:
        """The mean of a metric over the last rounds that have it, as many as `evaluation.last` says."""
        rounds, values = self.series(path)
        return mean_at_end(values, rounds, self.checked_config.evaluation.last)

    @cached_property
    def task(self) -> type[Task]:
        """What the models of the run predict, by what was measured or else by the loss."""
        return task_of_run(self.metrics, self.config)

    @property
    def score(self) -> float:
        """Mean test accuracy over the last rounds, or macro-F1 or R² as the task has it."""
        return self.final(f"test.{self.task.metric}")

    @property
    def round_forgetting(self) -> float:
        """Mean round forgetting over the whole run."""
        rounds, values = self.series("forgetting.round")
        return mean_over_rounds(values, rounds)

    @property
    def sent_forgetting(self) -> float:
        """The same of the model that clients receive, where another is evaluated; NaN elsewhere."""
        rounds, values = self.series("sent.forgetting.round")
        return mean_over_rounds(values, rounds)

    @cached_property
    def own_metrics(self) -> list[str]:
        """The user's own metrics, as `name` or `name.part`."""
        found = set()
        for record in self.metrics:
            for name in record.keys() - RECORDED:
                value = record[name]
                parts = (
                    {f"{name}.{part}": v for part, v in value.items()} if isinstance(value, Mapping) else {}
                )
                found |= {path for path, v in (parts or {name: value}).items() if isinstance(v, int | float)}
        # Which phase it is says when, not how well.
        return sorted(found - PHASE)

    @cached_property
    def part(self) -> str:
        """The data behind the curves: the test set if it was evaluated, else the validation sets."""
        return "test" if any(record.get("test") for record in self.metrics) else "validation"

    @cached_property
    def measured(self) -> Positions:
        """The positions of the rounds with an evaluation, in order."""
        return np.flatnonzero([bool(record.get(self.part)) for record in self.metrics])

    @cached_property
    def rounds(self) -> list[int]:
        """The numbers of the measured rounds."""
        found: list[int] = self._rounds[self.measured].tolist()
        return found

    def curve(self, name: str) -> Array:
        """A number of the global model, such as accuracy or loss, over the measured rounds."""
        return self._measured(self.part, name)

    def _measured(self, *path: str) -> Array:
        """A number over the measured rounds; NaN where it is unknown."""
        rows, found = self.known(*path)
        values = np.full(len(self.metrics), np.nan)
        values[rows] = numbers(found)
        return values[self.measured]

    @property
    def last(self) -> int:
        """How many last rounds a result is averaged over; 1 for a run that was only observed."""
        return max(int(self.config.get("evaluation", {}).get("last", 1)), 1)

    @cached_property
    def per_class(self) -> Array:
        """Accuracy [measured rounds, classes] of the global model; empty when it was not recorded."""
        rows, found = self.known(self.part, "per_class")
        return numbers(found) if len(rows) and np.array_equal(rows, self.measured) else np.empty((0, 0))

    @cached_property
    def classes(self) -> int:
        """How many classes were measured; 0 if none were."""
        _, found = self.known(self.part, "per_class")
        probed = [record["start"] for record in self.probe("local_per_class")]
        return max(map(len, [*found, *probed]), default=0)

    @cached_property
    def lost_per_class(self) -> Array:
        """What each class lost [rounds, classes] in rounds that follow a measured one; a gain is 0."""
        history = self.per_class
        # A loss over a gap of several rounds is not that of one round.
        following = np.diff(self.rounds[: len(history)]) == 1
        lost: Array = np.maximum(history[:-1] - history[1:], 0.0)[following]
        return lost

    def forgetting(self, name: str) -> Array:
        """Round forgetting ("round") or FedNTD's score ("fedntd") over the measured rounds."""
        return self._measured("forgetting", name)

    def names(self, classes: int) -> list[str]:
        """The names of the classes, or their numbers."""
        return list(self.class_names) if self.class_names else [str(label) for label in range(classes)]

    def probe(self, name: str) -> Iterator[Record]:
        """The probes of one kind in order of round."""
        yield from sorted((p for p in self.probes if p["probe"] == name), key=lambda p: int(p["round"]))


def relabeled(run: RunRecords, label: str) -> RunRecords:
    """The run under another label; its configuration is not validated again."""
    other = replace(run, label=label)
    vars(other)["checked_config"] = run.checked_config
    return other


def by_newest_model(run: RunRecords, title: str) -> RunRecords:
    """A run that averages its models as the run without averaging, which it has the numbers of."""
    own = {"validation", "test", "client_test", "forgetting", "sent"}
    metrics = [
        {**{key: value for key, value in record.items() if key not in own}, **record.get("sent", {})}
        for record in run.metrics
    ]
    config = {key: value for key, value in run.config.items() if key != "averaging"}
    return replace(run, label=title, metrics=metrics, config={**config, "name": title})


def with_averaging(title: str) -> str:
    """The title of a run that averages its models beside the run without averaging."""
    return f"{title} {'and' if ' with ' in title else 'with'} averaging"

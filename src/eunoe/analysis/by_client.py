"""Runs side by side for each client: with the federation, alone and centrally; who gains and who pays.

Accuracies are on a client's own test part (`split.test`), or on its samples of the test set where each client
is one writer of the data. They are means of the last rounds, as everywhere. What a client gains is against
its own model if one of the settings is `local`, else against the first setting. The loss may be shown in
place of the accuracy, and is where numbers are predicted; less of it is a gain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from eunoe.analysis.statistics import LEVEL, Interval, mean, mean_std, student_interval
from eunoe.analysis.tables import Table
from eunoe.errors import InputError, join_names
from eunoe.metrics.forgetting import mean_at_end, spread
from eunoe.store.main_metric import common_task
from eunoe.store.run_records import RunRecords

PLACES = ("client_test", "test")
ClientMetric = Literal["accuracy", "loss"]
# A client, with its seed where clients of different seeds are not the same ones.
Key = tuple[int | None, int]


@dataclass(frozen=True)
class Arm:
    """The runs of one setting: each client's accuracy or loss by seed."""

    title: str
    alone: bool
    values: Mapping[Key, Mapping[int, float]]
    # Mean and worst tenth over clients by seed.
    mean: Mapping[int, float]
    worst_tenth: Mapping[int, float]


class ByClient:
    """The clients of several settings; as text, a table and who gains and who pays."""

    def __init__(
        self, groups: Mapping[str, Sequence[RunRecords]], metric: ClientMetric | None = None
    ) -> None:
        """`groups` are the runs of each setting by its title."""
        runs = [run for members in groups.values() for run in members]
        self.place = _place(runs)
        self.metric: ClientMetric = metric or (
            "accuracy" if all(_has(run, self.place, "accuracy") for run in runs) else "loss"
        )
        if not all(_has(run, self.place, self.metric) for run in runs):
            raise InputError(f"not all of these runs have {self.metric} by client: take the loss")
        self.task = common_task([run.task for run in runs])
        _check_same_clients(groups)
        # Those of a random partition are others with every seed.
        seeds = {run.checked_config.seed for run in runs}
        self.fixed = len(seeds) == 1 or all(_natural(run) for run in runs)
        self.arms = [self._arm(title, members) for title, members in groups.items()]
        alone = [arm for arm in self.arms if arm.alone]
        self.reference = alone[0] if len(alone) == 1 else self.arms[0]
        self.others = [arm for arm in self.arms if arm is not self.reference]
        self.samples = {
            self._key(run, client): size
            for run in runs
            for client, size in zip(*_owned(run, self.place), strict=True)
        }
        self._names = next((run.client_names for run in runs if run.client_names), None)
        self._without = sorted(
            {
                client
                for run in runs
                for client in range(len(run.label_counts) if run.label_counts is not None else 0)
                if self._key(run, client) not in self.samples
            }
        )
        self._idle = sorted({client for run in runs for client in _never_trained(run)})

    def name(self, key: Key) -> str:
        """What a client is called."""
        seed, client = key
        name = self._names[client] if self._names else f"client {client}"
        return name if seed is None else f"{name}, seed {seed}"

    def table(self) -> Table:
        """A row per client, then their mean and the mean of the worst tenth."""
        rows = [
            [self.name(key), str(size), *self._cells([arm.values[key] for arm in self.arms])]
            for key, size in sorted(self.samples.items(), key=lambda one: (one[0][0] or 0, one[0][1]))
        ]
        rows.append(["mean of clients", "", *self._cells([arm.mean for arm in self.arms])])
        rows.append(["worst tenth", "", *self._cells([arm.worst_tenth for arm in self.arms])])
        gains = [f"{arm.title} against {self.reference.title}" for arm in self.others]
        return Table(["client", "samples", *(arm.title for arm in self.arms), *gains], rows, self._note())

    def sentences(self) -> list[str]:
        """Who gains and who pays, for every setting but the reference."""
        return [self._sentence(arm) for arm in self.others]

    def __repr__(self) -> str:
        return "\n".join([self.table().text(), *self.sentences()])

    def _arm(self, title: str, members: Sequence[RunRecords]) -> Arm:
        values: dict[Key, dict[int, float]] = {}
        means, worst = {}, {}
        for run in members:
            seed, found = run.checked_config.seed, _numbers(run, self.place, self.metric)
            for client, number in found.items():
                values.setdefault(self._key(run, client), {})[seed] = number
            over = spread([self._sign * number for number in found.values()])
            means[seed], worst[seed] = self._sign * over.mean, self._sign * over.worst_tenth
        return Arm(title, members[0].checked_config.method.name == "local", values, means, worst)

    def _key(self, run: RunRecords, client: int) -> Key:
        return (None if self.fixed else run.checked_config.seed), client

    def _cells(self, found: Sequence[Mapping[int, float]]) -> list[str]:
        """Each setting's mean ± std over seeds, then the differences from the reference."""
        cells = [mean_std(list(one.values()), 3) for one in found]
        reference = found[self.arms.index(self.reference)]
        for arm, one in zip(self.arms, found, strict=True):
            if arm is not self.reference:
                apart = _paired(one, reference)
                cells.append(student_interval(apart).cell(3) if len(apart) > 1 else f"{mean(apart):+.3f}")
        return cells

    def _sentence(self, arm: Arm) -> str:
        found: dict[str, list[tuple[float, str]]] = {"gain": [], "pay": [], self._undecided: []}
        for key in self.samples:
            apart = [self._sign * one for one in _paired(arm.values[key], self.reference.values[key])]
            # What would be shown as 0.0 points is no difference.
            once = round(mean(apart), 3)
            over = student_interval(apart) if len(apart) > 1 else Interval(once, once, once)
            verb = "gain" if over.positive else "pay" if over.negative else self._undecided
            # Not -0.0.
            change = self._sign * over.mean + 0.0
            words = f"{100 * change:+.1f}" if self.metric == "accuracy" else f"{change:+.3f}"
            found[verb].append((over.mean, f"{self.name(key)} ({words})"))
        parts = [
            f"{len(those)} of {len(self.samples)} {verb}: "
            + join_names([words for _, words in sorted(those, reverse=verb != "pay")])
            for verb, those in found.items()
            if those
        ]
        over_clients = ", ".join(
            f"{what} {self._number(theirs)} against {self._number(mine)}"
            for what, theirs, mine in (
                ("mean", arm.mean, self.reference.mean),
                ("worst tenth", arm.worst_tenth, self.reference.worst_tenth),
            )
        )
        unit = "in points" if self.metric == "accuracy" else "by loss"
        return f"{arm.title} against {self.reference.title}, {unit}: {'; '.join(parts)}; {over_clients}."

    def _number(self, by_seed: Mapping[int, float]) -> str:
        found = mean(list(by_seed.values()))
        return f"{100 * found:.1f}" if self.metric == "accuracy" else f"{found:.3f}"

    @property
    def _sign(self) -> float:
        """1 where more is better, -1 where less is."""
        return 1.0 if self.metric == "accuracy" else -1.0

    @cached_property
    def _undecided(self) -> str:
        several = any(len(found) > 1 for found in self.reference.values.values())
        return "differ by no more than chance" if several else "are the same"

    def _note(self) -> str:
        where = "its own test part" if self.place == "client_test" else "its samples of the test set"
        what = self.task.client_metric if self.metric == "accuracy" else "loss"
        words = [f"{what} of a client on {where}, mean of the last rounds"]
        if any(len(found) > 1 for found in self.reference.values.values()):
            words.append(f"differences by seed [{LEVEL:.0%} interval]")
        else:
            words.append("one seed: differences of a few samples may be chance")
        for what, clients in (("without a test part", self._without), ("never took part", self._idle)):
            if clients:
                words.append(f"{what}: {join_names([self.name((None, client)) for client in clients])}")
        return "; ".join(words)


def _place(runs: Sequence[RunRecords]) -> str:
    for place in PLACES:
        if all(_owned(run, place)[0] for run in runs):
            return place
    raise InputError(
        "the runs have no accuracy by client: set split.test, for example to 0.2, in each of them (and "
        "`most` of metric by_client if there are more than 100 clients)"
    )


def _check_same_clients(groups: Mapping[str, Sequence[RunRecords]]) -> None:
    """Refuse runs of one seed that divide the data differently."""
    first: dict[int, tuple[str, object]] = {}
    for title, members in groups.items():
        for run in members:
            seed = run.checked_config.seed
            counts = None if run.label_counts is None else run.label_counts.tolist()
            other, theirs = first.setdefault(seed, (title, counts))
            if theirs != counts:
                raise InputError(
                    f"{other} and {title} have different clients: compare runs of the same data, partition, "
                    "split and seed"
                )
    for title, members in groups.items():
        if missing := sorted(first.keys() - {run.checked_config.seed for run in members}):
            raise InputError(f"{title} has no run of seed {missing[0]}, and another setting has: run it too")


def _owned(run: RunRecords, place: str) -> tuple[list[int], list[int]]:
    """The clients that have samples at a place, and how many; none if that was not recorded."""
    clients, samples = (run.known(place, "by_client", name)[1] for name in ("clients", "samples"))
    return (list(clients[-1]), list(samples[-1])) if len(clients) else ([], [])


def _has(run: RunRecords, place: str, metric: str) -> bool:
    """Whether a number was recorded by client."""
    return len(run.known(place, "by_client", metric)[0]) > 0


def _numbers(run: RunRecords, place: str, metric: str) -> dict[int, float]:
    """Each client's accuracy or loss, mean of the last rounds."""
    rounds, each = run.series(f"{place}.by_client.{metric}")
    clients, _ = _owned(run, place)
    each = each.reshape(len(rounds), len(clients))
    return {client: mean_at_end(each[:, at], rounds, run.last) for at, client in enumerate(clients)}


def _never_trained(run: RunRecords) -> set[int]:
    """Clients of a run without a global model that never took part, and so have the model of the start."""
    if run.checked_config.method.name != "local" or run.label_counts is None:
        return set()
    trained = {int(client) for clients in run.known("clients")[1] for client in clients}
    return set(range(len(run.label_counts))) - trained


def _natural(run: RunRecords) -> bool:
    """Whether clients are the same ones with every seed."""
    config = run.checked_config
    return config.data.name == "given" or (
        config.partition.name == "natural" and not config.partition.options.get("clients")
    )


def _paired(values: Mapping[int, float], reference: Mapping[int, float]) -> list[float]:
    """Differences by seed."""
    return [values[seed] - reference[seed] for seed in sorted(values.keys() & reference.keys())]

"""Comparison of runs for each client: which clients gain and which lose.

Accuracies are on a client's own test part (`split.test`), or on its samples of the test set where each client
is one writer of the data, as means of the last rounds. A client's gain is against its own model if one of the
arms has method `local`, else against the first arm. The loss can replace the accuracy, and does for
regression; a lower loss is a gain.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from eunoe.analysis.statistics import LEVEL, Interval, mean, mean_std, student_interval
from eunoe.analysis.tables import Table
from eunoe.errors import InputError, join_names
from eunoe.metrics.forgetting import mean_at_end, spread
from eunoe.store.run_records import RunRecords, common_task

SECTIONS = ("client_test", "test")
ClientMetric = Literal["accuracy", "loss"]
# A client, with its seed if other seeds have other clients.
Key = tuple[int | None, int]


@dataclass(frozen=True)
class ClientArm:
    """Runs that differ in their seed only: each client's accuracy or loss by seed."""

    title: str
    local: bool
    values: Mapping[Key, Mapping[int, float]]
    # Mean and worst tenth over clients by seed.
    mean: Mapping[int, float]
    worst_tenth: Mapping[int, float]


class ByClient:
    """The clients of several arms; prints as a table and sentences."""

    def __init__(
        self, groups: Mapping[str, Sequence[RunRecords]], metric: ClientMetric | None = None
    ) -> None:
        """`groups` are the runs of each arm by its title."""
        runs = [run for members in groups.values() for run in members]
        self.section = _common_section(runs)
        self.metric: ClientMetric = metric or (
            "accuracy" if all(_has(run, self.section, "accuracy") for run in runs) else "loss"
        )
        if not all(_has(run, self.section, self.metric) for run in runs):
            raise InputError(f"not all runs have {self.metric} by client; compare them by loss")
        self.task = common_task([run.task for run in runs])
        _check_same_clients(groups)
        # A random partition has other clients for every seed.
        seeds = {run.checked_config.seed for run in runs}
        self.fixed = len(seeds) == 1 or all(_natural(run) for run in runs)
        self.arms = [self._arm(title, members) for title, members in groups.items()]
        local = [arm for arm in self.arms if arm.local]
        self.reference = local[0] if len(local) == 1 else self.arms[0]
        self.others = [arm for arm in self.arms if arm is not self.reference]
        self.samples = {
            self._key(run, client): size
            for run in runs
            for client, size in zip(*_owners(run, self.section), strict=True)
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
        """Return the name of a client."""
        seed, client = key
        name = self._names[client] if self._names else f"client {client}"
        return name if seed is None else f"{name}, seed {seed}"

    def table(self) -> Table:
        """Return a row per client, then their mean and the mean of the worst tenth."""
        rows = [
            [self.name(key), str(size), *self._cells([arm.values[key] for arm in self.arms])]
            for key, size in sorted(self.samples.items(), key=lambda item: (item[0][0] or 0, item[0][1]))
        ]
        rows.append(["mean of clients", "", *self._cells([arm.mean for arm in self.arms])])
        rows.append(["worst tenth", "", *self._cells([arm.worst_tenth for arm in self.arms])])
        gains = [f"{arm.title} against {self.reference.title}" for arm in self.others]
        return Table(["client", "samples", *(arm.title for arm in self.arms), *gains], rows, self._note())

    def sentences(self) -> list[str]:
        """Return which clients gain and which lose, for every arm but the reference."""
        return [self._sentence(arm) for arm in self.others]

    def __repr__(self) -> str:
        return "\n".join([self.table().text(), *self.sentences()])

    def _arm(self, title: str, members: Sequence[RunRecords]) -> ClientArm:
        values: dict[Key, dict[int, float]] = {}
        means, worst = {}, {}
        for run in members:
            seed, each = run.checked_config.seed, _by_client(run, self.section, self.metric)
            for client, number in each.items():
                values.setdefault(self._key(run, client), {})[seed] = number
            over = spread([self._sign * number for number in each.values()])
            means[seed], worst[seed] = self._sign * over.mean, self._sign * over.worst_tenth
        return ClientArm(title, members[0].checked_config.method.name == "local", values, means, worst)

    def _key(self, run: RunRecords, client: int) -> Key:
        return (None if self.fixed else run.checked_config.seed), client

    def _cells(self, by_arm: Sequence[Mapping[int, float]]) -> list[str]:
        """Return each arm's mean ± std over seeds, then the differences from the reference."""
        cells = [mean_std(list(by_seed.values()), 3) for by_seed in by_arm]
        reference = by_arm[self.arms.index(self.reference)]
        for arm, by_seed in zip(self.arms, by_arm, strict=True):
            if arm is not self.reference:
                apart = _differences(by_seed, reference)
                cells.append(student_interval(apart).cell(3) if len(apart) > 1 else f"{mean(apart):+.3f}")
        return cells

    def _sentence(self, arm: ClientArm) -> str:
        verdicts: dict[str, list[tuple[float, str]]] = {"gain": [], "lose": [], self._undecided: []}
        for key in self.samples:
            apart = [
                self._sign * value for value in _differences(arm.values[key], self.reference.values[key])
            ]
            # What would be shown as 0.0 points counts as no difference.
            once = round(mean(apart), 3)
            over = student_interval(apart) if len(apart) > 1 else Interval(once, once, once)
            verb = "gain" if over.positive else "lose" if over.negative else self._undecided
            # Not -0.0.
            change = self._sign * over.mean + 0.0
            words = f"{100 * change:+.1f}" if self.metric == "accuracy" else f"{change:+.3f}"
            verdicts[verb].append((over.mean, f"{self.name(key)} ({words})"))
        parts = [
            f"{len(clients)} of {len(self.samples)} {verb}: "
            + join_names([words for _, words in sorted(clients, reverse=verb != "lose")])
            for verb, clients in verdicts.items()
            if clients
        ]
        over_clients = ", ".join(
            f"{name} {self._format(values)} against {self._format(reference)}"
            for name, values, reference in (
                ("mean", arm.mean, self.reference.mean),
                ("worst tenth", arm.worst_tenth, self.reference.worst_tenth),
            )
        )
        unit = "in points" if self.metric == "accuracy" else "by loss"
        return f"{arm.title} against {self.reference.title}, {unit}: {'; '.join(parts)}; {over_clients}."

    def _format(self, by_seed: Mapping[int, float]) -> str:
        value = mean(list(by_seed.values()))
        return f"{100 * value:.1f}" if self.metric == "accuracy" else f"{value:.3f}"

    @property
    def _sign(self) -> float:
        """1 if higher is better, -1 if lower is."""
        return 1.0 if self.metric == "accuracy" else -1.0

    @cached_property
    def _undecided(self) -> str:
        return "have no significant difference" if self._several_seeds else "are the same"

    @cached_property
    def _several_seeds(self) -> bool:
        return any(len(by_seed) > 1 for by_seed in self.reference.values.values())

    def _note(self) -> str:
        where = "its own test part" if self.section == "client_test" else "its samples of the test set"
        what = self.task.client_metric if self.metric == "accuracy" else "loss"
        words = [f"{what} of a client on {where}, mean of the last rounds"]
        if self._several_seeds:
            words.append(f"differences by seed [{LEVEL:.0%} interval]")
        else:
            words.append("one seed: small differences may be chance")
        for what, clients in (("without a test part", self._without), ("never took part", self._idle)):
            if clients:
                words.append(f"{what}: {join_names([self.name((None, client)) for client in clients])}")
        return "; ".join(words)


def _common_section(runs: Sequence[RunRecords]) -> str:
    for section in SECTIONS:
        if all(_owners(run, section)[0] for run in runs):
            return section
    raise InputError(
        "the runs have no accuracy by client: set split.test, for example to 0.2 (and `most` of metric "
        "by_client if there are more than 100 clients)"
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
            raise InputError(f"{title} has no run of seed {missing[0]}, which others have: run it too")


def _owners(run: RunRecords, section: str) -> tuple[list[int], list[int]]:
    """Return the clients that own samples of a section, and how many; none if that was not recorded."""
    clients, samples = (run.known(section, "by_client", name)[1] for name in ("clients", "samples"))
    return (list(clients[-1]), list(samples[-1])) if len(clients) else ([], [])


def _has(run: RunRecords, section: str, metric: str) -> bool:
    """Return whether a metric was recorded by client."""
    return len(run.known(section, "by_client", metric)[0]) > 0


def _by_client(run: RunRecords, section: str, metric: str) -> dict[int, float]:
    """Return each client's accuracy or loss, mean of the last rounds."""
    rounds, each = run.series(f"{section}.by_client.{metric}")
    clients, _ = _owners(run, section)
    each = each.reshape(len(rounds), len(clients))
    return {client: mean_at_end(each[:, at], rounds, run.last) for at, client in enumerate(clients)}


def _never_trained(run: RunRecords) -> set[int]:
    """Return the clients of a run with method `local` that never took part, and have the start model."""
    if run.checked_config.method.name != "local" or run.label_counts is None:
        return set()
    trained = {int(client) for clients in run.known("clients")[1] for client in clients}
    return set(range(len(run.label_counts))) - trained


def _natural(run: RunRecords) -> bool:
    """Return whether clients are the same for every seed."""
    config = run.checked_config
    return config.data.name == "given" or (
        config.partition.name == "natural" and not config.partition.options.get("clients")
    )


def _differences(values: Mapping[int, float], reference: Mapping[int, float]) -> list[float]:
    """Return the differences by seed."""
    return [values[seed] - reference[seed] for seed in sorted(values.keys() & reference.keys())]

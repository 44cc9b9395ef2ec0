"""Comparison of runs for each client: which clients gain and which lose.

Accuracies are on a client's own test part (`split.test`), or on its samples of the test set where each client
is one writer of the data, as means of the last rounds. A client's gain is against its own model if one of the
arms has method `local`, else against the first arm; arms with private parameters are also compared with all
others. The loss can replace the accuracy, and does for regression; a lower loss is a gain.
"""

from collections.abc import Mapping, Sequence

from eunoe.analysis.statistics import LEVEL, Interval, mean, mean_std, student_interval
from eunoe.analysis.tables import Table
from eunoe.errors import InputError, join_names
from eunoe.metrics.forgetting import mean_at_end, spread
from eunoe.store.run_records import RunRecords, common_task

SECTIONS = ("client_test", "test")
# Metrics of which a lower value is better.
LOWER_IS_BETTER = ("loss", "calibration_error", "hamming_loss", "rmse", "mae")
# Rows beside those of clients.
MEAN, WORST_TENTH = "mean of clients", "worst tenth"


class ByClient:
    """The clients of several arms, by name; prints as a table and sentences.

    If other seeds have other clients, the name of a client includes its seed.
    """

    def __init__(self, groups: Mapping[str, Sequence[RunRecords]], metric: str | None = None) -> None:
        """`groups` are the runs of each arm by its title."""
        runs = [run for members in groups.values() for run in members]
        self.section = next((s for s in SECTIONS if all(_owners(run, s)[0] for run in runs)), "")
        if not self.section:
            raise InputError(
                "the runs have no accuracy by client: set split.test, for example to 0.2 (and `most` of "
                "metric by_client if there are more than 100 clients)"
            )
        recorded = set.intersection(*(set(recorded_metrics(run, [self.section])) for run in runs))
        self.metric = metric or ("accuracy" if "accuracy" in recorded else "loss")
        if self.metric not in recorded:
            raise InputError(
                f"not all runs recorded {self.metric} by client; compare by another metric, or "
                f'run with metrics=[{{name="by_client",metrics=["{self.metric}"]}}]'
            )
        self.task = common_task([run.task for run in runs])
        # 1 if higher is better, -1 if lower is.
        self._sign = -1.0 if self.metric in LOWER_IS_BETTER else 1.0
        _check_same_clients(groups)
        # A random partition has other clients for every seed.
        seeds = {run.checked_config.seed for run in runs}
        self._fixed = len(seeds) == 1 or all(_natural(run) for run in runs)
        self._several_seeds = self._fixed and len(seeds) > 1
        self._names = next((run.client_names for run in runs if run.client_names), None)
        self.arms = {title: self._values(members) for title, members in groups.items()}
        configs = {title: run.checked_config for title, (run, *_) in groups.items()}
        # From another run's model it is fine-tuning.
        local = [t for t, c in configs.items() if c.method.name == "local" and c.model.start_from is None]
        self.reference = local[0] if len(local) == 1 else next(iter(groups))
        self.others = [title for title in groups if title != self.reference]
        private = [title for title in self.others if configs[title].private is not None]
        self._pairs = [(title, self.reference) for title in self.others]
        self._pairs += [(title, other) for title in private for other in self.others if other not in private]
        owners = {
            self._key(run, client): (self._name(run, client), size)
            for run in runs
            for client, size in zip(*_owners(run, self.section), strict=True)
        }
        self.samples = dict(owners[key] for key in sorted(owners))
        every = [(r, c) for r in runs for c in range(0 if r.label_counts is None else len(r.label_counts))]
        named = dict(sorted((self._key(run, client), self._name(run, client)) for run, client in every))
        self._without = [name for name in named.values() if name not in self.samples]
        idle = {self._key(run, client) for run in runs for client in _never_trained(run)}
        self._idle = [name for key, name in named.items() if key in idle]

    def _key(self, run: RunRecords, client: int) -> tuple[int, int]:
        return 0 if self._fixed else run.checked_config.seed, client

    def _name(self, run: RunRecords, client: int) -> str:
        name = self._names[client] if self._names else f"client {client}"
        return name if self._fixed else f"{name}, seed {run.checked_config.seed}"

    def table(self) -> Table:
        """Return a row per client, then their mean and the mean of the worst tenth."""
        names = (*self.samples, MEAN, WORST_TENTH)
        rows = [[name, str(self.samples.get(name, "")), *self._cells(name)] for name in names]
        gains = [f"{title} against {self.reference}" for title in self.others]
        return Table(["client", "samples", *self.arms, *gains], rows, self._note())

    def sentences(self) -> list[str]:
        """Return which clients gain and which lose, for every arm but the reference."""
        return [self._sentence(*pair) for pair in self._pairs]

    def __repr__(self) -> str:
        return "\n".join([self.table().text(), *self.sentences()])

    def _values(self, members: Sequence[RunRecords]) -> dict[str, dict[int, float]]:
        """Return the metric of each client by seed, and their mean and worst tenth."""
        values: dict[str, dict[int, float]] = {}
        for run in members:
            rounds, recorded = run.series(f"{self.section}.by_client.{self.metric}")
            clients, _ = _owners(run, self.section)
            columns = recorded.reshape(len(rounds), len(clients)).T
            each = [mean_at_end(column, rounds, run.last) for column in columns]
            over = spread([self._sign * number for number in each])
            numbers = dict(zip((self._name(run, client) for client in clients), each, strict=True))
            numbers |= {MEAN: self._sign * over.mean, WORST_TENTH: self._sign * over.worst_tenth}
            for name, number in numbers.items():
                values.setdefault(name, {})[run.checked_config.seed] = number
        return values

    def _cells(self, name: str) -> list[str]:
        """Return each arm's mean ± std over seeds, then the differences from the reference."""
        cells = [mean_std(list(values[name].values()), 3) for values in self.arms.values()]
        for title in self.others:
            by_seed = self._differences(title, self.reference, name)
            # Not -0.000.
            one = f"{round(mean(by_seed), 3) + 0.0:+.3f}"
            cells.append(student_interval(by_seed).cell(3) if len(by_seed) > 1 else one)
        return cells

    def _differences(self, title: str, other: str, name: str) -> list[float]:
        """Return the differences of an arm from another one by seed."""
        values, reference = self.arms[title][name], self.arms[other][name]
        return [values[seed] - reference[seed] for seed in sorted(values.keys() & reference.keys())]

    def _sentence(self, title: str, reference: str) -> str:
        neither = "have no significant difference" if self._several_seeds else "are the same"
        verdicts: dict[str, list[tuple[float, str]]] = {"gain": [], "lose": [], neither: []}
        for name in self.samples:
            by_seed = [self._sign * value for value in self._differences(title, reference, name)]
            # What would be shown as 0.0 points counts as no difference.
            rounded = round(mean(by_seed), 3)
            over = student_interval(by_seed) if len(by_seed) > 1 else Interval(rounded, rounded, rounded)
            verb = "gain" if over.positive else "lose" if over.negative else neither
            # Not -0.0.
            change = self._format(self._sign * over.mean + 0.0, "+")
            verdicts[verb].append((over.mean, f"{name} ({change})"))
        parts = [
            f"{len(clients)} of {len(self.samples)} {verb}: "
            + join_names([words for _, words in sorted(clients, reverse=verb != "lose")])
            for verb, clients in verdicts.items()
            if clients
        ]
        means = [
            [self._format(mean(list(self.arms[arm][key].values()))) for arm in (title, reference)]
            for key in (MEAN, WORST_TENTH)
        ]
        parts.append("mean {} against {}, worst tenth {} against {}".format(*means[0], *means[1]))
        unit = "in points" if self.metric == "accuracy" else f"by {self.metric}"
        return f"{title} against {reference}, {unit}: {'; '.join(parts)}."

    def _format(self, value: float, sign: str = "") -> str:
        return f"{100 * value:{sign}.1f}" if self.metric == "accuracy" else f"{value:{sign}.3f}"

    def _note(self) -> str:
        where = "its own test part" if self.section == "client_test" else "its samples of the test set"
        what = self.task.client_metric if self.metric == "accuracy" else self.metric
        words = [f"{what} of a client on {where}, mean of the last rounds"]
        if self._several_seeds:
            words.append(f"differences by seed [{LEVEL:.0%} interval]")
        else:
            once = "one seed" if self._fixed else "every seed has other clients"
            words.append(f"{once}: small differences may be chance")
        for what, clients in (("without a test part", self._without), ("never took part", self._idle)):
            if clients:
                words.append(f"{what}: {join_names(clients)}")
        return "; ".join(words)


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
            raise InputError(
                f"{title} has no run with seed {missing[0]}: run all configurations with the same seeds"
            )


def _owners(run: RunRecords, section: str) -> tuple[list[int], list[int]]:
    """Return the clients that own samples of a section, and how many; none if that was not recorded."""
    clients, samples = (run.known(section, "by_client", name)[1] for name in ("clients", "samples"))
    return (list(clients[-1]), list(samples[-1])) if len(clients) else ([], [])


def recorded_metrics(run: RunRecords, sections: Sequence[str] = SECTIONS) -> list[str]:
    """Return the metrics that a run recorded by client."""
    values = [each for name in sections for each in run.known(name, "by_client")[1]]
    return list(dict.fromkeys(key for each in values for key in each if key not in ("clients", "samples")))


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

"""Diagnosis of a run: what it forgot, in which step, and which remedies to try.

The rules, in order; each uses measured numbers, not what the configuration promises:

1. The run diverged or never rose above chance (analysis/divergence.py): its forgetting means nothing. After
   a divergence try a smaller learning rate, then clipping.
2. The data changed over time, and that cost at least 5 points and more than a round takes from a class:
   replay and, for methods that keep knowledge of earlier data, a decay of it. Remedies for label skew
   come second.
3. Little is forgotten (round forgetting below 2 points and local loss L below 5): nothing to cure. With
   averaging, the round forgetting of the model sent to clients counts, since a mean of models has little.
4. The clients' class mixes are alike (mean distance from the whole below 0.2, or about what chance makes of
   one mix): no remedy for labels. Averaging, SCAFFOLD with server momentum, then fewer local steps.
5. The class mixes differ: local training erases classes that a client lacks. Averaging costs clients nothing
   and comes first, then wsm. If aggregation loss G is more than twice L, knowledge of single clients is lost
   in the average, and distillation keeps it: flashback, feddf. Otherwise SCAFFOLD with server momentum,
   FedNTD and FedProx.

The order of averaging, wsm, SCAFFOLD and FedNTD is that of benchmarks/remedies.py (docs/remedies.md).

Without a local_per_class probe, the accuracy that a client's training costs on other clients' data stands in
for L if it is 5 points or more; it is a lower bound, since gains are netted. G is not judged then. For
regression, L is the loss that a client's training adds on other clients' data, and no remedy is for labels.

If few clients take part in a round or local training is long, more clients and fewer epochs are
proposed as well. Remedies that do not fit the run's configuration are left out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eunoe.analysis.divergence import divergence, never_learned_warning
from eunoe.analysis.remedies import (
    AVERAGING,
    FEDDF,
    FEDNTD,
    FEDPROX,
    FLASHBACK,
    REPLAY,
    SCAFFOLD,
    WSM,
    Remedy,
)
from eunoe.analysis.summary import summarize
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import merge
from eunoe.core.tasks import Regression, Task
from eunoe.data import statistics
from eunoe.data.statistics import PartitionNumbers
from eunoe.errors import InputError
from eunoe.store.run_records import RunRecords, count_participants

LITTLE_PER_ROUND, LITTLE_LOCAL = 0.02, 0.05
# Limit where class mixes are alike: a round of few clients always loses some of a class and gains elsewhere.
LITTLE_IF_ALIKE = 0.05


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """The kind of forgetting, the findings as sentences, and the remedies in the order to try them."""

    kind: str
    sentences: tuple[str, ...]
    remedies: tuple[Remedy, ...]

    def __repr__(self) -> str:
        tries = [f"  {' '.join(remedy.settings)}: {remedy.reason}" for remedy in self.remedies]
        return "\n".join([*self.sentences, *(["To try, in this order:", *tries] if tries else [])])


def diagnose(run: RunRecords, check: Callable[[Config], object] = lambda config: None) -> Diagnosis:
    """Apply the rules to a run; remedies that the run already has or that do not fit it are left out.

    `check` raises an InputError for a config that cannot run, as `assemble` does.
    """

    def runs(config: Mapping[str, Any]) -> bool:
        try:
            check(make_config(config))
        except InputError:
            return False
        return True

    diagnosis = _diagnose(run)
    remedies = [remedy for remedy in diagnosis.remedies if remedy.is_new_to(run.config)]
    # If the run itself cannot be built (its data may be absent), neither can its remedies be checked.
    if remedies and runs(run.config):
        remedies = [remedy for remedy in remedies if runs(merge(run.config, remedy.changes))]
    return replace(diagnosis, remedies=tuple(remedies))


def forgets_little(run: RunRecords) -> bool:
    """Whether round forgetting of the model sent to clients is low; False if the run learned nothing."""
    little = LITTLE_IF_ALIKE if labels_alike(run) else LITTLE_PER_ROUND
    return not is_dead(run) and per_round(run) < little


def labels_alike(run: RunRecords) -> bool:
    """Whether the clients' class mixes are alike; False if they are unknown or there are no labels."""
    counts = None if run.task is Regression else run.label_counts
    return counts is not None and bool(counts.any()) and statistics.alike(counts.astype(np.int64))


def is_dead(run: RunRecords) -> bool:
    """Whether a run diverged or never rose above chance."""
    return _troubled(run, ()) is not None


def per_round(run: RunRecords) -> float:
    """Return the round forgetting of the model sent to clients; an averaged model has little anyway."""
    sent = run.sent_forgetting
    return run.round_forgetting if np.isnan(sent) else sent


def _diagnose(run: RunRecords) -> Diagnosis:
    summary, config = summarize(run), run.config
    clients, regression = _label_mixes(run), run.task is Regression
    local, aggregated, lost = summary["lost_locally"], summary["lost_in_aggregation"], per_round(run)
    facts = [*summary.sentences(), *_setting(run, clients)]
    if troubled := _troubled(run, facts):
        return troubled
    if config.get("method", {}).get("name") == "local":
        words = "Every client has its own model: there is no global model that could forget."
        return Diagnosis("alone", (*facts, f"{words} Who gains: eunoe compare FED LOCAL --by client."), ())
    changed = summary["lost_by_changes"]
    if not np.isnan(changed):
        if changed >= LITTLE_LOCAL and not changed <= lost:
            than = "" if np.isnan(lost) else f", more than a round takes from a class ({_points(lost)})"
            words = f"This is drift over time{than}; remedies for label skew come second."
            skew = () if labels_alike(run) else (_wsm(config, clients),)
            return Diagnosis("drift", (*facts, words), (REPLAY, *_decay(config), AVERAGING, *skew))
        facts.append("The changes of the data are not the cause of forgetting.")
    if np.isnan(local) and (regression or summary["client_forgetting"] >= LITTLE_LOCAL):
        local = summary["client_forgetting"]
    if np.isnan(lost) or np.isnan(local):
        words = "Too little was measured: run with evaluation and with a local_per_class probe."
        if not np.isnan(lost) and config.get("secure_aggregation") is not None:
            words = "Secure aggregation hides clients' models: round forgetting is known, its step is not."
        return Diagnosis("unmeasured", (*facts, words), ())
    if lost < LITTLE_PER_ROUND and local < LITTLE_LOCAL:
        return Diagnosis("little", (*facts, "Little is forgotten; there is nothing to cure."), ())
    if regression:
        words = f"A client's training costs {_points(local)} of R² on other clients' data."
        remedies = (AVERAGING, *_scaffold(run), FEDPROX, *_more_clients(run), *_fewer_epochs(run))
        return Diagnosis("local", (*facts, words), remedies)
    if labels_alike(run):
        words = (
            f"The clients' {run.task.unit} mixes are alike, so missing {run.task.outputs} are not the cause; "
            "a loss that re-weights classes is not expected to help."
        )
        return Diagnosis("not labels", (*facts, words), (AVERAGING, *_scaffold(run), *_fewer_epochs(run)))
    first = (AVERAGING, _wsm(config, clients))
    if aggregated > 2 * local:
        words = (
            f"Most is lost in aggregation, gains not counted: {_points(aggregated)}, against "
            f"{_points(local)} in local training. Single clients still know what the average has lost."
        )
        return Diagnosis(
            "aggregation", (*facts, words), (*first, *_distillation(config), *_more_clients(run))
        )
    remedies = (*first, *_scaffold(run), FEDNTD, FEDPROX, *_more_clients(run), *_fewer_epochs(run))
    return Diagnosis("local", (*facts, _cause(local, aggregated, clients, run.task)), remedies)


def _troubled(run: RunRecords, facts: Sequence[str]) -> Diagnosis | None:
    """Return the diagnosis of a run that diverged or learned nothing, or None."""
    if divergence(run):
        lr = run.checked_config.training.lr
        words = "The forgetting of a diverged model means nothing: let it converge first."
        smaller = {"training": {"lr": float(f"{lr / 5:.3g}")}}
        remedies = (
            Remedy("smaller learning rate", smaller, "a smaller learning rate is the first thing to try"),
            Remedy("clipping", {"training": {"clip": 10}}, "clipping bounds single steps that explode"),
        )
        return Diagnosis("diverged", (*facts, words), remedies)
    if never_learned_warning(run):
        words = "The model learned nothing that it could forget: train longer, or change the learning rate."
        return Diagnosis("untrained", (*facts, words), ())
    return None


def _cause(local: float, aggregated: float, clients: PartitionNumbers | None, task: type[Task]) -> str:
    """Say in which step most is lost, and why."""
    why = (
        f"a client has {clients.classes_mean:.1f} {task.outputs} on average and unlearns the others"
        if clients
        else "a client unlearns what the received model knew"
    )
    if np.isnan(aggregated):
        return f"Local training loses {_points(local)}: {why}."
    if local >= aggregated:
        return f"Local training loses {_points(local)}, more than aggregation ({_points(aggregated)}): {why}."
    return (
        f"Aggregation loses {_points(aggregated)}, more than local training ({_points(local)}), but not "
        f"twice as much. Both begin in local training: {why}, and averaging does not restore all of it."
    )


def _label_mixes(run: RunRecords) -> PartitionNumbers | None:
    """Measure how the clients' labels differ; None if there are no labels or no recorded counts."""
    counts = run.label_counts
    if counts is None or not counts.any() or run.task is Regression:
        return None
    return statistics.summarize(statistics.per_client(counts.astype(np.int64)))


def _setting(run: RunRecords, clients: PartitionNumbers | None) -> list[str]:
    """Describe the clients and their local training."""
    steps = [step for record in run.metrics for step in record.get("steps", ())]
    taking = np.mean([count_participants(record) for record in run.metrics])
    lines = []
    if clients and run.label_counts is not None:
        lines.append(
            f"{len(run.label_counts)} clients with {clients.classes_mean:.1f} of {run.label_counts.shape[1]} "
            f"{run.task.outputs} each (distance of a client's mix from the whole "
            f"{clients.distance_mean:.2f}, {clients.single_class_share:.0%} with a single {run.task.unit}), "
            f"{taking:.0f} in a round."
        )
    if steps:
        lines.append(f"A client takes {np.mean(steps):.0f} local steps.")
    return lines


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"


def _wsm(config: Mapping[str, Any], clients: PartitionNumbers | None) -> Remedy:
    decays = clients and clients.single_class_share > 0.1 and config["training"].get("weight_decay")
    spared = {"training": {"single_class": "no_decay"}} if decays else {}
    return replace(WSM, changes={**WSM.changes, **spared})


def _scaffold(run: RunRecords) -> list[Remedy]:
    """SCAFFOLD, unless the run has it or local momentum, which its corrections ignore."""
    unfit = run.config["method"]["name"] == "scaffold" or run.config["training"].get("momentum")
    return [] if unfit else [SCAFFOLD]


def _distillation(config: Mapping[str, Any]) -> list[Remedy]:
    public = config.get("public", {})
    if public.get("share") or public.get("count") or public.get("groups") or public.get("data"):
        return [FLASHBACK, FEDDF]
    cost = "needs 5% of the clients' samples, with their labels, at the server"
    return [
        replace(
            remedy,
            changes={**remedy.changes, "public": {"share": 0.05}},
            reason=f"{remedy.reason}; {cost}",
        )
        for remedy in (FLASHBACK, FEDDF)
    ]


def _decay(config: Mapping[str, Any]) -> list[Remedy]:
    """A decay of what a method knows of earlier data, for methods that have such knowledge."""
    name = config["method"]["name"]
    if name not in ("flashback", "fedcurv") or config["method"].get("decay", 1.0) < 1:
        return []
    return [Remedy("decay", {"method": {"decay": 0.95}}, "discounts what the method knows of earlier data")]


def _more_clients(run: RunRecords) -> list[Remedy]:
    if run.label_counts is None:
        return []
    clients = len(run.label_counts)
    share = float(np.mean([count_participants(record) for record in run.metrics])) / clients
    if share >= 0.2:
        return []
    more = {"participation": max(2 * round(share * clients), 2)}
    return [Remedy("more clients", more, "more clients in a round cover more of the data")]


def _fewer_epochs(run: RunRecords) -> list[Remedy]:
    epochs = run.config["training"].get("epochs", 1)
    if not isinstance(epochs, int) or epochs < 2 or run.config["training"].get("steps"):
        return []
    return [
        Remedy("fewer local epochs", {"training": {"epochs": epochs // 2}}, "less local training drifts less")
    ]

"""Diagnosis of a run: what it forgot, in which step, and which remedies to try.

The rules are those of docs/cure.md, in that order; each uses measured numbers, not what the configuration
promises. Averaging costs clients nothing and comes first; the order of the others is that of `cure`.

Without a local_per_class probe, the accuracy that a client's training costs on other clients' data stands in
for the local loss L if it is 5 points or more; it is a lower bound, since gains are netted. The aggregation
loss G is not judged then. For regression, L is the loss that a client's training adds on other clients' data.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eunoe.analysis.divergence import divergence, never_learned_warning, usefulness
from eunoe.analysis.remedies import REMEDIES, Clients, Remedy, order_by_gain
from eunoe.analysis.statistics import as_points
from eunoe.analysis.summary import Summary, summarize
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import merge
from eunoe.core.tasks import LABELED
from eunoe.data import statistics
from eunoe.data.statistics import PartitionNumbers
from eunoe.errors import InputError
from eunoe.store.run_records import RunRecords, count_participants
from eunoe.text import read_data

LITTLE_PER_ROUND, LITTLE_LOCAL, MUCH_RETAINED = 0.02, 0.05, 0.95
# Limit where class mixes are alike: a round of few clients always loses some of a class and gains elsewhere.
LITTLE_IF_ALIKE = 0.05
RULES = read_data("eunoe.analysis", "diagnosis.toml")


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """The kind of forgetting, the findings as sentences, and the remedies in the order to try them."""

    kind: str
    sentences: tuple[str, ...]
    remedies: tuple[Remedy, ...]
    # Whether the run was only measured, so that remedies are lines of code.
    observed: bool = False

    def __repr__(self) -> str:
        how = [remedy.code if self.observed else " ".join(remedy.settings) for remedy in self.remedies]
        tries = [f"  {what}: {remedy.reason}" for what, remedy in zip(how, self.remedies, strict=True)]
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

    if run.observed:
        # The rules read the config.
        diagnosis = diagnose(replace(run, config=run.checked_config.model_dump(mode="json")))
        usable = (remedy for remedy in diagnosis.remedies if remedy.code)
        return replace(diagnosis, remedies=tuple(usable), observed=True)
    summary, counts = summarize(run), _label_counts(run)
    clients = None if counts is None else statistics.summarize(counts)
    facts = [*summary.sentences(), *_setting(run, clients)]
    kind, words, candidates = _apply_rules(run, summary, clients)
    remedies = [remedy for remedy in candidates if remedy and remedy.is_new_to(run.config)]
    # If the run itself cannot be built (its data may be absent), neither can its remedies be checked.
    if remedies and runs(run.config):
        remedies = [remedy for remedy in remedies if runs(merge(run.config, remedy.changes))]
    return Diagnosis(kind, (*facts, *words), tuple(remedies))


def forgets_little(run: RunRecords) -> bool:
    """Return whether round forgetting of the model sent to clients is low; False if it learned nothing."""
    little = LITTLE_IF_ALIKE if labels_alike(run) else LITTLE_PER_ROUND
    dead = divergence(run) or never_learned_warning(run) or usefulness(run).useless
    return not dead and per_round(run) < little


def labels_alike(run: RunRecords) -> bool:
    """Return whether the clients' class mixes are alike; False if they are unknown or there are no labels."""
    counts = _label_counts(run)
    return counts is not None and statistics.alike(counts)


def clients_of(run: RunRecords) -> Clients:
    """Return what of a run's clients decides which remedies help."""
    taking = [count_participants(record) for record in run.metrics]
    return Clients.of(_label_counts(run), max(1.0, float(np.mean(taking or [1]))))


def per_round(run: RunRecords) -> float:
    """Return the round forgetting of the model sent to clients; an averaged model has little anyway."""
    sent = run.sent_forgetting
    return run.round_forgetting if np.isnan(sent) else sent


def _find_rule(run: RunRecords, lost: float, local: float, aggregated: float) -> str:
    """Return the key of the rule in diagnosis.toml that applies; numbers that are unknown are NaN."""
    if np.isnan(lost) or np.isnan(local):
        secure = run.config.get("secure_aggregation") is not None
        return "hidden" if secure and not np.isnan(lost) else "unmeasured"
    if lost < LITTLE_PER_ROUND and local < LITTLE_LOCAL:
        return "useless" if usefulness(run).useless else "little"
    if run.task.name not in LABELED:
        return "regression"
    if labels_alike(run):
        return "not labels"
    if np.isnan(aggregated):
        return "local_only"
    return "local" if local >= aggregated else "both" if aggregated <= 2 * local else "aggregation"


def _apply_rules(
    run: RunRecords, summary: Summary, clients: PartitionNumbers | None
) -> tuple[str, Sequence[str], Sequence[Remedy | None]]:
    """Return the kind of forgetting, what follows from the numbers, and the remedies."""
    local, aggregated, lost = summary["lost_locally"], summary["lost_in_aggregation"], per_round(run)
    changed, notes = summary["lost_by_changes"], []
    if np.isnan(local) and (run.task.name not in LABELED or summary["client_forgetting"] >= LITTLE_LOCAL):
        local = summary["client_forgetting"]
    if summary["diverged"] or summary["trouble"]:
        key = "diverged" if summary["diverged"] else "untrained"
    elif run.config.get("method", {}).get("name") == "local":
        key = "alone"
    elif changed >= LITTLE_LOCAL and not changed <= lost:
        key = "drift"
    elif summary["retention"] < MUCH_RETAINED:
        key = "start"
    else:
        key = _find_rule(run, lost, local, aggregated)
        notes += ["The changes of the data are not the cause of forgetting."] * (not np.isnan(changed))
    rule, proposals = RULES[key], _proposals(run, clients)
    words = rule["words"].format(
        local=as_points(local),
        aggregated=as_points(aggregated),
        than="" if np.isnan(lost) else f", more than a round takes from a class ({as_points(lost)})",
        left=f"{summary['retention']:.0%}",
        unit=run.task.unit,
        outputs=run.task.outputs,
        why=f"a client has {clients.classes_mean:.1f} {run.task.outputs} on average and unlearns the others"
        if clients
        else "a client unlearns what the received model knew",
    )
    remedies = [proposals[name] for name in rule.get("remedies", ())]
    if rule.get("by_gain"):
        ordered = order_by_gain([each for each in remedies[1:-2] if each], clients_of(run))
        remedies = [remedies[0], *ordered, *remedies[-2:]]
    return rule.get("kind", key), [*notes, words], remedies


def _proposals(run: RunRecords, clients: PartitionNumbers | None) -> dict[str, Remedy | None]:
    """Return all remedies by key, with those that depend on the run; None for one that does not fit it."""
    config, rate = run.config, run.checked_config.training.lr
    counts = _label_counts(run)
    rare = counts is not None and counts.sum(0).max() >= 4 * counts.sum(0).min()
    weighted = config["loss"].get("class_weights") == "balanced"
    smaller = {"training": {"lr": float(f"{rate / 5:.3g}")}}
    first = "a smaller learning rate is the first thing to try"
    return {
        **REMEDIES,
        "smaller_lr": Remedy("smaller learning rate", smaller, first),
        "wsm": None if labels_alike(run) else _wsm(config, clients),
        "class_weights": REMEDIES["class_weights"] if rare and not weighted else None,
        "scaffold": _scaffold(run),
        "flashback": _with_public(REMEDIES["flashback"], config),
        "feddf": _with_public(REMEDIES["feddf"], config),
        "decay": _decay(config),
        "more_clients": _more_clients(run),
        "fewer_epochs": _fewer_epochs(run),
    }


def _label_counts(run: RunRecords) -> NDArray[np.int64] | None:
    """Return the label counts [clients, classes]; None if there are no labels or no recorded counts."""
    counts = run.label_counts
    if counts is None or not counts.any() or run.task.name not in LABELED:
        return None
    return counts.astype(np.int64)


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


def _wsm(config: Mapping[str, Any], clients: PartitionNumbers | None) -> Remedy:
    decays = clients and clients.single_class_share > 0.1 and config["training"].get("weight_decay")
    spared = {"training": {"single_class": "no_decay"}} if decays else {}
    return replace(REMEDIES["wsm"], changes={**REMEDIES["wsm"].changes, **spared})


def _scaffold(run: RunRecords) -> Remedy | None:
    """Return SCAFFOLD, unless the run has it or uses local momentum, which its corrections ignore."""
    unfit = run.config["method"]["name"] == "scaffold" or run.config["training"].get("momentum")
    return None if unfit else REMEDIES["scaffold"]


def _with_public(remedy: Remedy, config: Mapping[str, Any]) -> Remedy:
    """Return a distillation with public data, where the run has none."""
    public = config.get("public", {})
    if public.get("share") or public.get("count") or public.get("groups") or public.get("data"):
        return remedy
    reason = f"{remedy.reason}; needs 5% of the clients' samples, with their labels, at the server"
    return replace(remedy, changes={**remedy.changes, "public": {"share": 0.05}}, reason=reason)


def _decay(config: Mapping[str, Any]) -> Remedy | None:
    """Return a decay of earlier knowledge as a remedy, for methods that have the option."""
    name = config["method"]["name"]
    if name not in ("flashback", "fedcurv") or config["method"].get("decay", 1.0) < 1:
        return None
    return Remedy("decay", {"method": {"decay": 0.95}}, "discounts what the method knows of earlier data")


def _more_clients(run: RunRecords) -> Remedy | None:
    taking = float(np.mean([count_participants(record) for record in run.metrics]))
    if run.label_counts is None or taking / len(run.label_counts) >= 0.2:
        return None
    more = {"participation": max(2 * round(taking), 2)}
    return Remedy("more clients", more, "more clients in a round cover more of the data")


def _fewer_epochs(run: RunRecords) -> Remedy | None:
    epochs = run.config["training"].get("epochs", 1)
    if not isinstance(epochs, int) or epochs < 2 or run.config["training"].get("steps"):
        return None
    fewer = {"training": {"epochs": epochs // 2}}
    return Remedy("fewer local epochs", fewer, "less local training drifts less")

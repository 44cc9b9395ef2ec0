"""What a run's measured forgetting means, in plain words, and what to try next.

The rules, in order; each rests on what was measured, not on what the configuration promises:

1. The run diverged or never rose above chance (records/divergence.py): what it forgot means nothing. After
   a divergence a smaller learning rate comes first, then clipping.
2. The data changed with time, and that cost 5 points or more and more than a round takes from a class: replay
   of earlier samples and, of methods that have some, knowledge that fades. What helps against label skew
   comes second.
3. Little is forgotten (round forgetting under 2 points and local loss L under 5): nothing to cure. Where
   models are averaged, the round forgetting of the model that clients receive counts: a mean has little.
4. The clients' class mixes are alike (mean distance from the whole under 0.2, or about what chance makes of
   one mix): no remedy for labels is promised. Averaging, SCAFFOLD with server momentum, which corrects the
   drift whatever its cause, then fewer local steps.
5. The class mixes differ: local training erases classes that a client lacks. The mean of the global models
   costs clients nothing and comes first, then wsm, a softmax that spares the classes a client lacks.
   Then, if aggregation loss G is more than twice L, what some client knows is lost when the models are
   averaged, and the Flashback paper finds that distilling the clients' models into the average keeps it:
   flashback, feddf. Otherwise SCAFFOLD with server momentum, FedNTD and FedProx.

The order of averaging, wsm, SCAFFOLD and FedNTD is that of benchmarks/remedies.py (docs/remedies.md).

Where there is no local_per_class probe, the accuracy that a client's training costs on other clients' data
stands in for L if it is 5 points or more: gains are netted in it, so no less is lost. G is not judged then.

Where few clients take part in a round or local training is long, more clients and fewer epochs are
proposed as well: the WSM paper's ablations show forgetting grow with both.

Of numbers, the loss that a client's training adds on other clients' data is L, and no remedy is for labels.
Changes that Eunoe would refuse with the run's configuration are not proposed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from eunoe.analysis.divergence import divergence, warning
from eunoe.analysis.summary import summarize
from eunoe.config.schema import make_config
from eunoe.config.settings import apply_settings
from eunoe.core.tasks import Regression, Task
from eunoe.data import statistics
from eunoe.data.statistics import PartitionNumbers
from eunoe.errors import InputError
from eunoe.search.proposals import (
    AVERAGING,
    PROX,
    REPLAY,
    Remedy,
    controls,
    distillation,
    fading,
    losses,
    more_clients,
    shorter,
)
from eunoe.simulation.build import assemble
from eunoe.store.run_records import RunRecords, taking_part

LITTLE_PER_ROUND, LITTLE_LOCAL = 0.02, 0.05
# Where class mixes are alike, a round of few clients loses up to so much of a class and gains it elsewhere.
LITTLE_IF_ALIKE = 0.05


@dataclass(frozen=True, repr=False)
class Diagnosis:
    """The kind of forgetting, what was found in words, and the remedies in the order to try them."""

    kind: str
    sentences: tuple[str, ...]
    remedies: tuple[Remedy, ...]

    def __repr__(self) -> str:
        tries = [f"  {' '.join(remedy.settings)}: {remedy.why}" for remedy in self.remedies]
        return "\n".join([*self.sentences, *(["To try, in this order:", *tries] if tries else [])])


def diagnose(run: RunRecords) -> Diagnosis:
    """Apply the rules to a run; remedies that it already had or that cannot run are left out."""
    found = _diagnose(run)
    new = [remedy for remedy in found.remedies if remedy.is_new_to(run.config)]
    # If the run itself cannot be assembled (its data may be absent), neither can its remedies be checked.
    if new and _assembles(run):
        new = [remedy for remedy in new if _assembles(run, remedy.settings)]
    return replace(found, remedies=tuple(new))


def _assembles(run: RunRecords, settings: Sequence[str] = ()) -> bool:
    try:
        config = make_config(apply_settings(run.config, settings)) if settings else run.checked_config
        assemble(config)
    except InputError:
        return False
    return True


def forgets_little(run: RunRecords) -> bool:
    """Whether a round costs the model that clients receive little; not so of a run that learned nothing."""
    little = LITTLE_IF_ALIKE if labels_alike(run) else LITTLE_PER_ROUND
    return not is_dead(run) and per_round(run) < little


def labels_alike(run: RunRecords) -> bool:
    """Whether the clients' class mixes are alike; not so if they are not known, or there are no labels."""
    counts = None if run.task is Regression else run.label_counts
    return counts is not None and bool(counts.any()) and statistics.alike(counts.astype(np.int64))


def is_dead(run: RunRecords) -> bool:
    """Whether a run diverged or never rose above chance."""
    return _troubled(run, ()) is not None


def per_round(run: RunRecords) -> float:
    """Round forgetting of the model that clients receive: a mean of models has little by construction."""
    sent = run.sent_forgetting
    return run.round_forgetting if np.isnan(sent) else sent


def _diagnose(run: RunRecords) -> Diagnosis:
    found, config = summarize(run), run.config
    clients, numbers = _label_mixes(run), run.task is Regression
    local, merge, lost = found["lost_locally"], found["lost_in_aggregation"], per_round(run)
    facts = [*found.sentences(), *_setting(run, clients)]
    if troubled := _troubled(run, facts):
        return troubled
    if config.get("method", {}).get("name") == "local":
        words = "Every client has its own model, so nothing is merged that could be forgotten by others."
        return Diagnosis("alone", (*facts, f"{words} Who gains: eunoe compare FED LOCAL --by client."), ())
    changed = found["lost_by_changes"]
    if not np.isnan(changed):
        if changed >= LITTLE_LOCAL and not changed <= lost:
            than = "" if np.isnan(lost) else f", more than a round takes from a class ({_points(lost)})"
            words = f"This is drift over time{than}; what helps against label skew comes second."
            skew = () if labels_alike(run) else losses(config, clients)[:1]
            return Diagnosis("drift", (*facts, words), (REPLAY, *fading(config), AVERAGING, *skew))
        facts.append("What is forgotten does not come from the changes of the data.")
    if np.isnan(local) and (numbers or found["client_forgetting"] >= LITTLE_LOCAL):
        local = found["client_forgetting"]
    if np.isnan(lost) or np.isnan(local):
        words = "Too little was measured: run with evaluation and with a local_per_class probe."
        if not np.isnan(lost) and config.get("secure_aggregation") is not None:
            words = (
                "Secure aggregation hides clients' models, so only what a round forgets is known, not where."
            )
        return Diagnosis("unmeasured", (*facts, words), ())
    if lost < LITTLE_PER_ROUND and local < LITTLE_LOCAL:
        return Diagnosis("little", (*facts, "Little is forgotten; there is nothing to cure."), ())
    if numbers:
        words = f"A client's training costs {_points(local)} of what is explained on other clients' data."
        remedies = (AVERAGING, *controls(run), PROX, *more_clients(run), *shorter(run))
        return Diagnosis("local", (*facts, words), remedies)
    if labels_alike(run):
        words = (
            f"The clients' {run.task.unit} mixes are alike, so what is forgotten does not come from missing "
            f"{run.task.outputs}; a loss that re-weights classes is not expected to help."
        )
        return Diagnosis("not labels", (*facts, words), (AVERAGING, *controls(run), *shorter(run)))
    first, *others = losses(config, clients)
    if merge > 2 * local:
        words = (
            f"Most is lost in aggregation, gains not counted: {_points(merge)}, against {_points(local)} in "
            "local training. Single clients still know what the average no longer does."
        )
        remedies = (AVERAGING, first, *distillation(config), *more_clients(run))
        return Diagnosis("merge", (*facts, words), remedies)
    remedies = (AVERAGING, first, *controls(run), *others, *more_clients(run), *shorter(run))
    return Diagnosis("local", (*facts, _cause(local, merge, clients, run.task)), remedies)


def _troubled(run: RunRecords, facts: Sequence[str]) -> Diagnosis | None:
    """What is said of a run whose forgetting means nothing; None for all others."""
    if divergence(run):
        lr = run.checked_config.training.lr
        words = "What a diverged model forgets means nothing: let it converge first."
        remedies = (
            Remedy("smaller steps are the first thing to try", (f"training.lr={lr / 5:.3g}",)),
            Remedy("a bound on the gradient stops single steps that explode", ("training.clip=10",)),
        )
        return Diagnosis("diverged", (*facts, words), remedies)
    if warning(run):
        words = "What was never learned cannot be forgotten: train longer, or at another learning rate."
        return Diagnosis("untrained", (*facts, words), ())
    return None


def _cause(local: float, merge: float, clients: PartitionNumbers | None, task: type[Task]) -> str:
    """Where it is lost, by both numbers, and why."""
    why = (
        f"a client has {clients.classes_mean:.1f} {task.outputs} on average and unlearns the others"
        if clients
        else "a client unlearns what the model it received knew"
    )
    if np.isnan(merge):
        return f"Local training loses {_points(local)}: {why}."
    if local >= merge:
        return f"Local training loses {_points(local)}, more than aggregation ({_points(merge)}): {why}."
    return (
        f"aggregation loses {_points(merge)}, more than local training ({_points(local)}), but not twice as "
        f"much. Both begin in local training: {why}, and the average does not bring all of it back."
    )


def _label_mixes(run: RunRecords) -> PartitionNumbers | None:
    """How the clients' labels differ; None if the label counts were not recorded, or there are none."""
    counts = run.label_counts
    if counts is None or not counts.any() or run.task is Regression:
        return None
    return statistics.summarize(statistics.per_client(counts.astype(np.int64)))


def _setting(run: RunRecords, clients: PartitionNumbers | None) -> list[str]:
    steps = [step for record in run.metrics for step in record.get("steps", ())]
    taking = np.mean([taking_part(record) for record in run.metrics])
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

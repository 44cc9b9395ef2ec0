"""What a run's measured forgetting means, in plain words, and what to try next.

The rules, in order; each rests on what was measured, not on what the configuration promises:

1. The run diverged or never rose above chance (records/divergence.py): what it forgot means nothing. After
   a divergence a smaller learning rate comes first, then clipping.
2. Little is forgotten (round forgetting under 2 points and local loss L under 5): nothing to cure. Where
   models are averaged, the round forgetting of the model that clients receive counts: a mean has little.
3. The clients' class mixes are alike (mean distance from the whole under 0.2, or about what chance makes of
   one mix): no remedy for labels is promised. Averaging, SCAFFOLD with server momentum, which corrects the
   drift whatever its cause, then fewer local steps.
4. The class mixes differ: local training erases classes that a client lacks. The mean of the global models
   costs clients nothing and comes first, then wsm, a softmax that spares the classes a client lacks.
   Then, if the merge loss G is more than twice L, what some client knows is lost when the models are
   averaged, and the Flashback paper finds that distilling the clients' models into the average keeps it:
   flashback, feddf. Otherwise SCAFFOLD with server momentum, FedNTD and FedProx.

The order of averaging, wsm, SCAFFOLD and FedNTD is that of benchmarks/remedies.py (docs/remedies.md).

Where there is no local_per_class probe, the accuracy that a client's training costs on other clients' data
stands in for L if it is 5 points or more: gains are netted in it, so no less is lost. G is not judged then.

Where few clients take part in a round or local training is long, more clients and fewer epochs are
proposed as well: the WSM paper's ablations show forgetting grow with both.

Changes that Eunoe would refuse with the run's configuration are not proposed.
"""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from eunoe.config.schema import make_config
from eunoe.config.settings import apply_settings, parse_value
from eunoe.data import statistics
from eunoe.data.statistics import PartitionNumbers
from eunoe.errors import InputError
from eunoe.records.divergence import divergence, warning
from eunoe.records.reader import RunRecords, taking_part
from eunoe.records.summary import summarize
from eunoe.runs.assembly import assemble

LITTLE_PER_ROUND, LITTLE_LOCAL = 0.02, 0.05
# Where class mixes are alike, a round of few clients loses up to so much of a class and gains it elsewhere.
LITTLE_IF_ALIKE = 0.05


@dataclass(frozen=True)
class Remedy:
    """A change of settings to try, and why."""

    why: str
    settings: tuple[str, ...]

    def command(self, config: str, name: str = "") -> str:
        """The command that runs the same config with this change, under its own name."""
        changes = [setting.rpartition(".name=")[2] for setting in self.settings]
        named = (f"name={' + '.join([name, *changes])}",) if name else ()
        settings = [f"--set {shlex.quote(setting)}" for setting in (*self.settings, *named)]
        return " ".join(["eunoe run", shlex.quote(config), *settings])

    def change(self) -> str:
        """The change of a federation's own config, which its next run is started with."""
        parts = [setting.partition("=") for setting in self.settings]
        changes = [f"{path} = {json.dumps(parse_value(text))}" for path, _, text in parts]
        return f"in config.toml of the app: {', '.join(changes)}"

    def is_new_to(self, config: Mapping[str, Any]) -> bool:
        """Whether it names a loss or a method that the run did not have, or averaging, or none of them."""
        if config.get("averaging") and any(setting.startswith("averaging.") for setting in self.settings):
            return False
        named = [setting.split(".name=") for setting in self.settings if ".name=" in setting]
        return not named or any(config[section]["name"] != name for section, name in named)


SCAFFOLD = Remedy(
    "correct each client's drift by what it did before; it sends twice the bytes",
    (
        "method.name=scaffold",
        "server_optimizer.name=momentum",
        "server_optimizer.beta=0.8",
        "server_optimizer.lr=0.2",
    ),
)
AVERAGING = Remedy(
    "evaluate the mean of the global models; it costs clients nothing", ("averaging.decay=0.9",)
)


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
    """Whether the clients' class mixes are alike; not so if they are not known."""
    counts = run.label_counts
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
    clients = _label_mixes(run)
    local, merge, lost = found["lost_locally"], found["lost_in_merge"], per_round(run)
    facts = [*found.sentences(), *_setting(run, clients)]
    if troubled := _troubled(run, facts):
        return troubled
    if config.get("method", {}).get("name") == "local":
        words = "Every client has its own model, so nothing is merged that could be forgotten by others."
        return Diagnosis("alone", (*facts, f"{words} Who gains: eunoe compare FED LOCAL --by client."), ())
    if np.isnan(local) and found["client_forgetting"] >= LITTLE_LOCAL:
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
    if labels_alike(run):
        words = (
            "The clients' class mixes are alike, so what is forgotten does not come from missing classes; "
            "a loss that re-weights classes is not expected to help."
        )
        return Diagnosis("not labels", (*facts, words), (AVERAGING, *_controls(run), *_shorter(run)))
    first, *others = _losses(config, clients)
    if merge > 2 * local:
        words = (
            f"Most is lost in the merge, gains not counted: {_points(merge)}, against {_points(local)} in "
            "local training. Single clients still know what the average no longer does."
        )
        remedies = (AVERAGING, first, *_distillation(config), *_more(run))
        return Diagnosis("merge", (*facts, words), remedies)
    remedies = (AVERAGING, first, *_controls(run), *others, *_more(run), *_shorter(run))
    return Diagnosis("local", (*facts, _cause(local, merge, clients)), remedies)


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


def _cause(local: float, merge: float, clients: PartitionNumbers | None) -> str:
    """Where it is lost, by both numbers, and why."""
    why = (
        f"a client has {clients.classes_mean:.1f} classes on average and unlearns the others"
        if clients
        else "a client unlearns what the model it received knew"
    )
    if np.isnan(merge):
        return f"Local training loses {_points(local)}: {why}."
    if local >= merge:
        return f"Local training loses {_points(local)}, more than the merge ({_points(merge)}): {why}."
    return (
        f"The merge loses {_points(merge)}, more than local training ({_points(local)}), but not twice as "
        f"much. Both begin in local training: {why}, and the average does not bring all of it back."
    )


def _label_mixes(run: RunRecords) -> PartitionNumbers | None:
    """How the clients' labels differ; None if the label counts were not recorded."""
    counts = run.label_counts
    if counts is None or not counts.any():
        return None
    return statistics.summarize(statistics.per_client(counts.astype(np.int64)))


def _setting(run: RunRecords, clients: PartitionNumbers | None) -> list[str]:
    steps = [step for record in run.metrics for step in record.get("steps", ())]
    taking = np.mean([taking_part(record) for record in run.metrics])
    lines = []
    if clients and run.label_counts is not None:
        lines.append(
            f"{len(run.label_counts)} clients with {clients.classes_mean:.1f} of {run.label_counts.shape[1]} "
            f"classes each (distance of a client's mix from the whole {clients.distance_mean:.2f}, "
            f"{clients.single_class_share:.0%} with a single class), {taking:.0f} in a round."
        )
    if steps:
        lines.append(f"A client takes {np.mean(steps):.0f} local steps.")
    return lines


def _losses(config: Mapping[str, Any], clients: PartitionNumbers | None) -> list[Remedy]:
    decays = clients and clients.single_class_share > 0.1 and config["training"].get("weight_decay")
    spared = ("training.single_class=no_decay",) if decays else ()
    return [
        Remedy(
            "re-weight the softmax by the client's class shares, so absent classes are spared",
            ("loss.name=wsm", *spared),
        ),
        Remedy("keep the received model's view of the other classes", ("method.name=fedntd",)),
        Remedy("hold the client near the received model", ("method.name=fedprox", "method.mu=0.1")),
    ]


def _distillation(config: Mapping[str, Any]) -> list[Remedy]:
    public = config.get("public", {})
    there = public.get("share") or public.get("count") or public.get("groups") or public.get("data")
    share = () if there else ("public.share=0.05",)
    cost = "" if there else "; 5% of the clients' samples, with their labels, must be at the server instead"
    return [
        Remedy(
            f"distil the clients and the last model into the average, by what each has seen{cost}",
            ("method.name=flashback", *share),
        ),
        Remedy(
            f"distil the mean of the clients' outputs into the average{cost}", ("method.name=feddf", *share)
        ),
    ]


def _participation(run: RunRecords) -> float:
    taking = float(np.mean([taking_part(record) for record in run.metrics]))
    return float("nan") if run.label_counts is None else taking / len(run.label_counts)


def _controls(run: RunRecords) -> list[Remedy]:
    """SCAFFOLD, unless the run had it or local momentum, which its corrections do not know."""
    known = run.config["method"]["name"] == "scaffold" or run.config["training"].get("momentum")
    return [] if known else [SCAFFOLD]


def _more(run: RunRecords) -> list[Remedy]:
    share = _participation(run)
    if share < 0.2 and run.label_counts is not None:
        more = max(2 * round(share * len(run.label_counts)), 2)
        return [Remedy("more clients in a round cover more classes", (f"participation={more}",))]
    return []


def _shorter(run: RunRecords) -> list[Remedy]:
    epochs = run.config["training"].get("epochs", 1)
    if isinstance(epochs, int) and epochs > 1 and not run.config["training"].get("steps"):
        return [Remedy("less local training drifts less", (f"training.epochs={max(1, epochs // 2)}",))]
    return []


def _points(share: float) -> str:
    return f"{100 * share:.1f} points"

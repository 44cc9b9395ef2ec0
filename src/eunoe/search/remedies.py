"""What a cure tries, in the order in which it tries it: one table, and what of it fits a run.

The run as it is stands first. What follows it is in the order in which each adds most to the best of those
before it, on average over the settings of benchmarks/remedies.py. The learning rate of the run as it is is
varied like that of the others, so that a remedy is not compared with a badly tuned baseline.

Averaging of global models is not in the table: it changes no training, so every candidate is tried with it
and without in one run.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from eunoe.config.schema import Config, make_config
from eunoe.config.settings import merge
from eunoe.errors import InputError
from eunoe.simulation.build import UserObjects, assemble
from eunoe.store.run_records import with_averaging

Changes = Mapping[str, Any]


@dataclass(frozen=True)
class Treatment:
    """Changes of a run's configuration, when they apply, and what they cost.

    `labels`: only where the clients' class mixes differ; `dead`: only for a run that learned nothing;
    `below`: only for learning rates below it. `lr` and `epochs` are factors on the run's own. `cost` is the
    time of local training, 1 for plain training.
    """

    name: str
    changes: Changes = field(default_factory=dict)
    lr: float = 1.0
    epochs: float = 1.0
    labels: bool = False
    dead: bool = False
    below: float = math.inf
    cost: float = 1.0

    def applied(self, values: Mapping[str, Any], config: Config) -> dict[str, Any] | None:
        """The values with its changes; None if it cannot change them."""
        training: dict[str, Any] = {}
        if self.lr != 1:
            training["lr"] = float(f"{config.training.lr * self.lr:.4g}")
        if self.epochs != 1:
            epochs = config.training.epochs
            if config.training.steps is not None or not isinstance(epochs, int) or epochs < 2:
                return None
            training["epochs"] = max(1, round(epochs * self.epochs))
        changed = merge(values, self.changes, {"training": training} if training else {})
        return None if self.name and make_config(changed) == config else changed


WSM: Changes = {"loss": {"name": "wsm"}}
MOMENTUM: Changes = {"server_optimizer": {"name": "momentum", "beta": 0.8, "lr": 0.2}}
# Its momentum lengthens steps almost sevenfold, so it goes with a smaller learning rate.
FEDACG: Changes = {"method": {"name": "fedacg"}}
# A mean of models lags behind while they still learn quickly.
SHORT = 60
# Ten times a rate that is not small leads nowhere.
SMALL = 0.02

BASELINE = Treatment("")
_WSM = Treatment("wsm", WSM, labels=True)


def _third(treatment: Treatment) -> Treatment:
    return _at(treatment, 1 / 3, "a third of the learning rate")


def _threefold(treatment: Treatment) -> Treatment:
    return _at(treatment, 3.0, "three times the learning rate")


def _tenfold(treatment: Treatment) -> Treatment:
    return replace(_at(treatment, 10.0, "ten times the learning rate"), below=SMALL)


def _at(treatment: Treatment, lr: float, words: str) -> Treatment:
    return replace(treatment, name=", ".join(part for part in (treatment.name, words) if part), lr=lr)


TABLE: Sequence[Treatment] = (
    BASELINE,
    replace(_at(BASELINE, 0.1, "a tenth of the learning rate"), dead=True),
    replace(_at(BASELINE, 0.01, "a hundredth of the learning rate"), dead=True),
    _threefold(_WSM),
    _threefold(BASELINE),
    _third(Treatment("wsm with fedacg", {**WSM, **FEDACG}, labels=True, cost=1.1)),
    Treatment("scaffold with server momentum", {"method": {"name": "scaffold"}, **MOMENTUM}, cost=1.1),
    _WSM,
    _tenfold(BASELINE),
    _tenfold(_WSM),
    Treatment("fedntd", {"method": {"name": "fedntd"}}, labels=True, cost=1.3),
    Treatment("logit adjustment", {"loss": {"name": "logit_adjusted", "tau": 0.5}}, labels=True),
    _third(BASELINE),
    _third(Treatment("fedacg", FEDACG, cost=1.1)),
    Treatment("wsm with server momentum", {**WSM, **MOMENTUM}, labels=True),
    Treatment("falling learning rate", {"training": {"lr_decay": 0.97}}),
    Treatment("server momentum", MOMENTUM),
    _third(_WSM),
    Treatment("half of the local epochs", epochs=0.5, cost=0.5),
    Treatment("fedprox", {"method": {"name": "fedprox", "mu": 0.1}}, cost=1.1),
    Treatment("fedsam", {"method": {"name": "fedsam"}}, cost=2.0),
    Treatment("flashback", {"method": {"name": "flashback"}}, cost=1.5),
    Treatment("feddf", {"method": {"name": "feddf"}}, cost=1.5),
)


@dataclass(frozen=True)
class Candidate:
    """A treatment of a run: its label, the values of its runs, and the user's objects that it keeps."""

    label: str
    treatment: Treatment
    values: Mapping[str, Any]
    given: Mapping[str, Any]


def candidates(
    values: Mapping[str, Any],
    config: Config,
    given: UserObjects,
    labels_differ: bool,
    dead: bool = False,
) -> list[Candidate]:
    """The treatments that fit a run, the run as it is first; what could not be assembled is left out."""
    found: list[Candidate] = []
    objects = {key: it for key, it in vars(given).items() if it is not None}
    for treatment in TABLE:
        if (treatment.labels and not labels_differ) or (treatment.dead and not dead):
            continue
        if config.training.lr >= treatment.below:
            continue
        # An object of the user's own is kept unless the treatment names another in its place.
        kept = {key: it for key, it in objects.items() if key not in treatment.changes}
        try:
            changed = treatment.applied(values, config)
            if changed is None:
                continue
            made = make_config(changed)
            if any(made == make_config(other.values) for other in found):
                continue
            if treatment is not BASELINE:
                assemble(made, UserObjects(**kept))
        except InputError:
            if treatment is BASELINE:
                raise
            continue
        found.append(Candidate(treatment.name or config.title, treatment, changed, kept))
    return found


class Forms(NamedTuple):
    """A candidate in the two forms that one run shows: by its newest model, and by the mean of its models."""

    newest: Candidate
    mean: Candidate


def forms(one: Candidate, config: Config) -> Forms:
    """Both forms of a candidate; that which the run to cure has is the candidate itself."""
    if config.averaging is not None:
        return Forms(_form(one, f"{one.label} without averaging", None), one)
    decay = 0.8 if config.rounds <= SHORT else 0.9
    label = with_averaging(one.label) if one.treatment.name else "averaging"
    return Forms(one, _form(one, label, {"decay": decay}))


def _form(one: Candidate, label: str, averaging: Mapping[str, Any] | None) -> Candidate:
    change = {"averaging": averaging}
    treatment = replace(one.treatment, name=label, changes={**one.treatment.changes, **change})
    return Candidate(label, treatment, {**one.values, **change}, one.given)

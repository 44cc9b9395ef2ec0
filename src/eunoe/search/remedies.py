"""What a cure tries, in which order: one table, and which of its remedies fit a run.

The baseline comes first, then the remedies in the order in which each adds most to the best of those before
it, on average over the settings of benchmarks/remedies.py. The baseline's learning rate is varied like that
of the remedies, so that no remedy is compared with a badly tuned baseline.

Averaging of global models is not in the table: it changes no training, so every remedy is tried with and
without it in one run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from eunoe.analysis.remedies import FEDDF, FEDNTD, FEDPROX, FLASHBACK, SCAFFOLD, SERVER_MOMENTUM, WSM, Remedy
from eunoe.config.schema import Config, make_config
from eunoe.errors import InputError
from eunoe.simulation.build import UserObjects, assemble
from eunoe.store.run_records import with_averaging

# Up to so many rounds averaging gets a smaller decay: models still learn quickly, and their mean lags behind.
SHORT = 60
# Learning rates from which a tenfold one is not tried.
SMALL = 0.02

BASELINE = Remedy("")
# The momentum of FedACG lengthens steps almost sevenfold: it is tried with a smaller learning rate.
_FEDACG = Remedy("fedacg", {"method": {"name": "fedacg"}}, cost=1.1)
_WSM_FEDACG = Remedy("wsm with fedacg", {**WSM.changes, **_FEDACG.changes}, labels=True, cost=1.1)


def _scale_lr(remedy: Remedy, lr: float, words: str, **conditions: Any) -> Remedy:
    name = f"{remedy.name}, {words}" if remedy.name else words
    return replace(remedy, name=name, lr=lr, **conditions)


def _third(remedy: Remedy) -> Remedy:
    return _scale_lr(remedy, 1 / 3, "a third of the learning rate")


def _threefold(remedy: Remedy) -> Remedy:
    return _scale_lr(remedy, 3.0, "three times the learning rate")


def _tenfold(remedy: Remedy) -> Remedy:
    return _scale_lr(remedy, 10.0, "ten times the learning rate", below=SMALL)


TABLE: Sequence[Remedy] = (
    BASELINE,
    _scale_lr(BASELINE, 0.1, "a tenth of the learning rate", dead=True),
    _scale_lr(BASELINE, 0.01, "a hundredth of the learning rate", dead=True),
    _threefold(WSM),
    _threefold(BASELINE),
    _third(_WSM_FEDACG),
    SCAFFOLD,
    WSM,
    _tenfold(BASELINE),
    _tenfold(WSM),
    FEDNTD,
    Remedy("logit adjustment", {"loss": {"name": "logit_adjusted", "tau": 0.5}}, labels=True),
    _third(BASELINE),
    _third(_FEDACG),
    Remedy("wsm with server momentum", {**WSM.changes, **SERVER_MOMENTUM}, labels=True),
    Remedy("falling learning rate", {"training": {"lr_decay": 0.97}}),
    Remedy("server momentum", SERVER_MOMENTUM),
    _third(WSM),
    Remedy("half of the local epochs", epochs=0.5, cost=0.5),
    FEDPROX,
    Remedy("fedsam", {"method": {"name": "fedsam"}}, cost=2.0),
    FLASHBACK,
    FEDDF,
)


def applicable_remedies(
    values: Mapping[str, Any], config: Config, objects: UserObjects, labels_differ: bool, dead: bool = False
) -> list[Remedy]:
    """Return the remedies of the table that fit a run, the baseline first."""
    remedies: list[Remedy] = []
    configs: list[Config] = []
    for remedy in TABLE:
        if (remedy.labels and not labels_differ) or (remedy.dead and not dead):
            continue
        if config.training.lr >= remedy.below:
            continue
        try:
            changed = remedy.apply(values, config)
            # A remedy may equal the baseline or an earlier remedy.
            if changed is None or (new := make_config(changed)) in configs:
                continue
            if remedy is not BASELINE:
                assemble(new, UserObjects(**kept_objects(remedy, objects)))
        except InputError:
            if remedy is BASELINE:
                raise
            continue
        remedies.append(remedy)
        configs.append(new)
    return remedies


def kept_objects(remedy: Remedy, objects: UserObjects) -> dict[str, Any]:
    """Return the user's objects, without those that the remedy replaces by a named component."""
    return {key: it for key, it in vars(objects).items() if it is not None and key not in remedy.changes}


class Variants(NamedTuple):
    """A remedy without and with averaging; one run shows the results of both."""

    newest: Remedy
    averaged: Remedy


def averaging_variants(remedy: Remedy, config: Config) -> Variants:
    """Return both variants of a remedy; the one with the run's own averaging is the remedy itself."""
    if config.averaging is not None:
        name = f"{remedy.name or config.title} without averaging"
        return Variants(_with_changes(remedy, name, {"averaging": None}), remedy)
    decay = 0.8 if config.rounds <= SHORT else 0.9
    name = with_averaging(remedy.name) if remedy.name else "averaging"
    return Variants(remedy, _with_changes(remedy, name, {"averaging": {"decay": decay}}))


def _with_changes(remedy: Remedy, name: str, changes: Mapping[str, Any]) -> Remedy:
    return replace(remedy, name=name, changes={**remedy.changes, **changes})

"""What a cure tries, in which order: one table, which of its remedies fit a run, and variations of the best.

Averaging of global models is not in the table: it changes no training, so every remedy is tried with and
without it in one run. The learning rate of the baseline is varied like that of the remedies, so that no
remedy is compared with a badly tuned baseline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from eunoe.analysis.remedies import (
    FEDDF,
    FEDNTD,
    FEDPROX,
    FLASHBACK,
    PRESET,
    SCAFFOLD,
    SERVER_MOMENTUM,
    WSM,
    Clients,
    Remedy,
    averaging_decay,
    order_by_gain,
    recommend,
)
from eunoe.config.schema import Config, make_config
from eunoe.errors import InputError
from eunoe.simulation.build import UserObjects, assemble

# Learning rates from which a tenfold one is not tried.
SMALL = 0.02
THIRD = 1 / 3

BASELINE = Remedy("")
# The momentum of FedACG lengthens steps almost sevenfold: it is tried with a smaller learning rate.
FEDACG = Remedy.method("fedacg")
WSM_FEDACG = Remedy("wsm with fedacg", {**WSM.changes, **FEDACG.changes}, labels=True)
MILD_FEDACG = Remedy("fedacg with momentum 0.5", {"method": {"name": "fedacg", "momentum": 0.5}})

TABLE: Sequence[Remedy] = (
    BASELINE,
    PRESET,
    replace(BASELINE, lr=0.1, dead=True),
    replace(BASELINE, lr=0.01, dead=True),
    replace(FEDACG, lr=THIRD),
    replace(BASELINE, lr=3.0),
    WSM,
    replace(WSM_FEDACG, lr=THIRD),
    SCAFFOLD,
    replace(BASELINE, lr=THIRD),
    replace(MILD_FEDACG, lr=0.5),
    replace(WSM, lr=3.0),
    replace(BASELINE, lr=10.0, below=SMALL),
    replace(BASELINE, final_lr=0.1),
    FEDNTD,
    Remedy("logit adjustment", {"loss": {"name": "logit_adjusted", "tau": 0.5}}, labels=True),
    Remedy("wsm with server momentum", {**WSM.changes, **SERVER_MOMENTUM}, labels=True),
    Remedy("server momentum", SERVER_MOMENTUM),
    replace(BASELINE, epochs=0.5),
    FEDPROX,
    Remedy.method("fedsam"),
    FLASHBACK,
    FEDDF,
)


class Applicability:
    """Decides which remedies fit a run, in which order, and that none is tried twice."""

    def __init__(
        self, values: Mapping[str, Any], config: Config, objects: UserObjects, dead: bool = False
    ) -> None:
        """`dead`: whether the run learned nothing."""
        self.values, self.config, self.objects, self.dead = values, config, objects, dead
        self.configs: list[Config] = []

    def select(self, remedies: Sequence[Remedy]) -> list[Remedy]:
        """Return the remedies that fit and are new."""
        return [remedy for remedy in remedies if self._is_new(remedy)]

    def _is_new(self, remedy: Remedy) -> bool:
        if (remedy.dead and not self.dead) or self.config.training.lr >= remedy.below:
            return False
        try:
            changed = remedy.apply(self.values, self.config)
            if changed is None or (new := make_config(changed)) in self.configs:
                return False
            if remedy.label:
                assemble(new, UserObjects(**kept_objects(remedy, self.objects)))
        except InputError:
            if not remedy.label:
                raise
            return False
        self.configs.append(new)
        return True


def order_table(clients: Clients, labels_alike: bool, forgets_little: bool) -> list[Remedy]:
    """Return the table in the order for a run: the baseline, the preset, and the others by their gains.

    Where class mixes are alike, losses and methods for labels come last; where little is forgotten, other
    learning rates come first.
    """

    def key(remedy: Remedy) -> tuple[bool, bool, bool, bool]:
        rate = not remedy.name and remedy.epochs == 1
        first = remedy in TABLE[:1] or remedy.dead
        return (
            not first,
            remedy.name != PRESET.name,
            labels_alike and remedy.labels,
            forgets_little and not rate,
        )

    table = [recommend(clients) if remedy is PRESET else remedy for remedy in TABLE]
    return sorted(order_by_gain(table, clients), key=key)


def vary(remedy: Remedy) -> list[Remedy]:
    """Return variations of a remedy, the most promising first."""
    variations = [
        replace(remedy, lr=3 * remedy.lr),
        replace(remedy, final_lr=0.1),
        replace(remedy, lr=remedy.lr / 3),
        replace(remedy, epochs=2 * remedy.epochs),
        replace(remedy, epochs=remedy.epochs / 2),
    ]
    if "loss" not in remedy.changes:
        name = f"wsm with {remedy.name}" if remedy.name else "wsm"
        variations.insert(2, replace(remedy, name=name, changes={**remedy.changes, **WSM.changes}))
    return variations


def kept_objects(remedy: Remedy, objects: UserObjects) -> dict[str, Any]:
    """Return the user's objects, without those that the remedy replaces by a named component."""
    return {key: it for key, it in vars(objects).items() if it is not None and key not in remedy.changes}


class Variants(NamedTuple):
    """A remedy without and with averaging; one run shows the results of both."""

    newest: Remedy
    averaged: Remedy


def averaging_variants(remedy: Remedy, config: Config) -> Variants:
    """Return both variants of a remedy; the one with the run's own averaging is the remedy itself."""
    other = None if config.averaging is not None else {"decay": averaging_decay(config.rounds)}
    changed = replace(remedy, changes={**remedy.changes, "averaging": other})
    return Variants(remedy, changed) if config.averaging is None else Variants(changed, remedy)

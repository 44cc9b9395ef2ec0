"""What a cure tries, in which order: one table, which of its remedies fit a run, and variations of the best.

Averaging of global models is not in the table: it changes no training, so every remedy is tried with and
without it in one run. The learning rate of the baseline is varied like that of the remedies, so that no
remedy is compared with a badly tuned baseline.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from eunoe.analysis.remedies import (
    REMEDIES,
    TABLE,
    Clients,
    Remedy,
    averaging_decay,
    order_by_gain,
    recommend,
)
from eunoe.config.schema import Config, make_config
from eunoe.errors import InputError
from eunoe.simulation.build import UserObjects, assemble


@dataclass
class Applicability:
    """Decides which remedies fit a run, and that none is tried twice; `dead`: the run learned nothing."""

    values: Mapping[str, Any]
    config: Config
    objects: UserObjects
    dead: bool = False
    configs: list[Config] = field(default_factory=list)

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
                assemble(new, UserObjects(**select_objects(remedy, self.objects)))
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

    preset = recommend(clients)

    def key(remedy: Remedy) -> tuple[bool, bool, bool, bool]:
        rate = not remedy.name and remedy.epochs == 1
        first = remedy in TABLE[:1] or remedy.dead
        late = labels_alike and remedy.labels, forgets_little and not rate
        return not first, remedy.name != preset.name, *late

    table = [preset if remedy == REMEDIES["preset"] else remedy for remedy in TABLE]
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
        changes = {**remedy.changes, **REMEDIES["wsm"].changes}
        variations.insert(2, replace(remedy, name=name, changes=changes))
    return variations


def select_objects(remedy: Remedy, objects: UserObjects) -> dict[str, Any]:
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

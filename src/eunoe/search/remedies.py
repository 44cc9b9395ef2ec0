"""What a cure tries, in which order, and the runs that try it: one table and variations of the best.

Averaging of global models is not in the table: it changes no training, so every remedy is tried with and
without it in one run. The learning rate of the baseline is varied like that of the remedies, so that no
remedy is compared with a badly tuned baseline.
"""

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import takewhile
from pathlib import Path
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
from eunoe.config.settings import merge
from eunoe.errors import InputError
from eunoe.search.halving import Callbacks, Clock, TimeUp, Trial
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.hooks import Record
from eunoe.simulation.many import Planned, execute, is_done
from eunoe.simulation.run import Run
from eunoe.store.reader import read_status
from eunoe.store.run_records import without_averaging

# So many seeds run at a time, so that complete pairs are there when the time is up.
AT_ONCE = 5


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


def list_seeds(first: int, count: int, excluded: int) -> list[int]:
    """Return seeds from a first one on, without the one that is excluded."""
    return [seed for seed in range(first, first + count + 1) if seed != excluded][:count]


@dataclass(frozen=True)
class CureRuns:
    """The runs of a cure in a folder; `values` and `config` are those of the baseline.

    `samples` is the number of validation samples that pick checkpoints and remedies, `seed` that of the run.
    """

    folder: Path
    values: Mapping[str, Any]
    config: Config
    objects: UserObjects
    jobs: int
    callbacks: Callbacks
    samples: int
    seed: int

    def label(self, remedy: Remedy) -> str:
        """Return the remedy's label; the baseline has the title of its config."""
        return remedy.label or self.config.title

    def own_variant(self, variants: Variants) -> Remedy:
        """Return the variant with the run's own averaging."""
        return variants.newest if self.config.averaging is None else variants.averaged

    def trial(self, variants: Variants, number: int) -> Trial:
        """Return the trial of a remedy: it shows both variants, on validation data only."""
        values = merge(self._values(variants.averaged), {"evaluation": {"test": False}})
        values.pop("metrics", None)
        label = self.label(self.own_variant(variants))
        return Trial(number, label, values, select_objects(variants.averaged, self.objects))

    def is_averaging_alone(self, remedy: Remedy) -> bool:
        """Whether a remedy changes no training, so that its runs show the baseline too."""
        return remedy.label == "averaging" and self.config.averaging is None

    def confirm(
        self, baseline: Remedy, winner: Remedy, seeds: Sequence[int], clock: Clock
    ) -> tuple[list[Run], list[Run]]:
        """Run baseline and winner on fresh seeds; return the pairs that ended before the budget did."""
        rounds, folder = self.config.rounds, self.folder / "runs"
        alone = self.is_averaging_alone(winner)
        arms = [
            Trial(0, self.label(remedy), self._values(remedy), select_objects(remedy, self.objects))
            for remedy in ((winner,) if alone else (baseline, winner))
        ]
        pairs = [[arm.plan_run(folder, seed, rounds) for arm in arms] for seed in seeds]
        left = [rounds - int(read_status(run.folder).get("round", 0)) for pair in pairs for run in pair]
        if any(left):
            title = f"{self.label(winner)} against the baseline, {len(seeds)} fresh seeds"
            self.callbacks.on_stage(title, sum(left))

        def on_round(planned: Planned, record: Record | None) -> None:
            self.callbacks.on_round(planned, record)
            if clock.over:
                raise TimeUp

        with suppress(TimeUp):
            for start in range(0, len(pairs), AT_ONCE):
                execute([run for pair in pairs[start : start + AT_ONCE] for run in pair], self.jobs, on_round)
        ended = list(takewhile(lambda pair: all(map(is_done, pair)), pairs))
        before, after = ([Run(pair[arm].folder) for pair in ended] for arm in (0, -1))
        return [_without_averaging(run, self.label(baseline)) for run in before] if alone else before, after

    def _values(self, remedy: Remedy) -> dict[str, Any]:
        values = remedy.apply(self.values, self.config)
        assert values is not None
        return values


def _without_averaging(run: Run, title: str) -> Run:
    """Return a run with averaging as the one without: its numbers, but the weights of the averaged model."""
    other = copy.copy(run)
    other.read = without_averaging(run.read, title)
    other.values = other.read.config
    return other

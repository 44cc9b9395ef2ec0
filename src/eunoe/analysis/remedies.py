"""Remedies: changes of a config that may lower forgetting. `diagnose` proposes them, `cure` searches them.

They are defined in remedies.toml. Both order them by what each adds to those before it in the design settings
of the leaderboard, of which those with similar clients count most (remedy_gains.toml).
"""

import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

import numpy as np

from eunoe.config.schema import Config
from eunoe.config.settings import flatten, merge
from eunoe.data.checks import Array
from eunoe.data.statistics import summarize
from eunoe.store.run_records import with_averaging
from eunoe.text import read_data

SHORT = 60
# Distances at which the closeness of settings is halved: label skew, and log10 of samples and of clients.
_REACH = np.array([0.3, 1.0, 0.5])
_DATA = read_data("eunoe.analysis", "remedies.toml")


@dataclass(frozen=True)
class Remedy:
    """Changes of a run's config, why they may help, when they apply, and what they cost.

    - `changes`: nested config values. `lr` and `epochs` are factors on the run's own values; `final_lr` is
      the learning rate of the last round relative to that of the first.
    - `labels`: only if the clients' class mixes differ. `dead`: only if the run learned nothing. `below`:
      only for learning rates below it.
    - `code`: the line of code that makes the change in a custom training loop, if any.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    lr: float = 1.0
    epochs: float = 1.0
    final_lr: float = 1.0
    labels: bool = False
    dead: bool = False
    below: float = math.inf
    code: str = ""

    @property
    def label(self) -> str:
        """The name with the factors; empty for the baseline."""
        factors = _DATA["factors"]
        rate = factors.get(f"{self.lr:.3g}", f"{self.lr:.3g} times")
        words = [
            self.name,
            f"{rate} the learning rate" if self.lr != 1 else "",
            "falling learning rate" if self.final_lr != 1 else "",
            f"{factors[f'{self.epochs:.3g}']} the local epochs" if self.epochs != 1 else "",
        ]
        label = ", ".join(filter(None, words))
        if "averaging" not in self.changes:
            return label
        if self.changes["averaging"] is None:
            return f"{label or 'baseline'} without averaging"
        return with_averaging(label) if label else "averaging"

    def apply(self, values: Mapping[str, Any], config: Config) -> dict[str, Any] | None:
        """Return the values with the changes made, or None if they cannot be made."""
        training: dict[str, Any] = {}
        if self.lr != 1:
            training["lr"] = float(f"{config.training.lr * self.lr:.4g}")
        if self.final_lr != 1:
            training["lr_decay"] = float(f"{self.final_lr ** (1 / config.rounds):.6g}")
        if self.epochs != 1:
            epochs = config.training.epochs
            if config.training.steps is not None or not isinstance(epochs, int) or epochs * self.epochs < 1:
                return None
            training["epochs"] = max(1, round(epochs * self.epochs))
        return merge(values, self.changes, {"training": training} if training else {})

    @property
    def settings(self) -> tuple[str, ...]:
        """The changes in the form of --set."""
        return tuple(f"{path}={value}" for path, value in flatten(self.changes).items())

    def command(self, config: str, name: str = "") -> str:
        """Return the command that runs a config with these changes, under its own name if it has one."""
        changes = [setting.rpartition(".name=")[2] for setting in self.settings]
        named = (f"name={' + '.join([name, *changes])}",) if name else ()
        settings = [f"--set {shlex.quote(setting)}" for setting in (*self.settings, *named)]
        return " ".join(["eunoe run", shlex.quote(config), *settings])

    def config_change(self) -> str:
        """Describe the change to make in the config of a Flower app."""
        changes = [f"{path} = {json.dumps(value)}" for path, value in flatten(self.changes).items()]
        return f"in config.toml of the app: {', '.join(changes)}"

    def is_new_to(self, config: Mapping[str, Any]) -> bool:
        """Return whether the run lacks this averaging or replay, or one of the named components."""
        if any(config.get(key) for key in ("averaging", "replay") if key in self.changes):
            return False
        names = {
            section: change["name"]
            for section, change in self.changes.items()
            if isinstance(change, Mapping) and "name" in change
        }
        return not names or any(config[section]["name"] != name for section, name in names.items())


REMEDIES: Mapping[str, Remedy] = {key: Remedy(**{"name": key, **own}) for key, own in _DATA["remedy"].items()}
# What `cure` tries.
TABLE: Sequence[Remedy] = [replace(REMEDIES[key], **changes) for key, changes in _DATA["table"]]


def averaging_decay(rounds: int) -> float:
    """Return the decay of averaging; in a short run models still learn quickly, and their mean lags."""
    return 0.8 if rounds <= SHORT else 0.9


class Clients(NamedTuple):
    """What decides which remedies help: distance of the clients' class mixes from the whole, training samples
    per client, and clients in a round."""

    skew: float
    samples: float
    taking: float

    @classmethod
    def of(cls, counts: Array | None, taking: float) -> Self:
        """Compute them from label counts [clients, classes]; without labels, mixes count as alike."""
        if counts is None or not counts.any():
            return cls(0.0, 100.0, taking)
        numbers = summarize(counts)
        return cls(numbers.distance_mean, numbers.size_mean, taking)

    def closeness(self, other: Self) -> float:
        """Return 1 for equal clients, and less the more they differ."""
        (skew, *sizes), (other_skew, *others) = self, other
        distances = np.array([skew - other_skew, *(np.log10(sizes) - np.log10(others))])
        return float(2 ** -np.sum((distances / _REACH) ** 2))


def recommend(clients: Clients) -> Remedy:
    """Return the recommended preset without averaging: FedACG with a momentum that follows from the clients.

    The less of the data a round covers, the more the momentum would carry one round's classes into the next.
    """
    covered = clients.taking * (1 - clients.skew)
    momentum = round(float(np.clip(0.5 + 0.55 * (covered - 0.4), 0.5, 0.85)), 2)
    changes = {"method": {"name": "fedacg", "momentum": momentum}}
    return replace(REMEDIES["preset"], changes=changes, lr=0.5 if momentum < 0.8 else 1 / 3)


def read_gains() -> list[dict[str, Any]]:
    """Return the gains of remedies in the design settings of the leaderboard."""
    return list(read_data("eunoe.analysis", "remedy_gains.toml")["setting"])


def order_by_gain(remedies: Sequence[Remedy], clients: Clients) -> list[Remedy]:
    """Order remedies so that each adds most to the best of those before it.

    Those without known gains come before those that add nothing.
    """
    settings = read_gains()
    weights = np.array([clients.closeness(Clients(*setting["clients"])) for setting in settings])
    gains = {
        remedy.label: np.array([setting["gains"].get(remedy.label, 0.0) for setting in settings])
        for remedy in remedies
        if any(remedy.label in setting["gains"] for setting in settings)
    }
    best, order = np.zeros(len(settings)), list[str]()

    def adds(label: str) -> tuple[float, float]:
        return float(weights @ np.maximum(best, gains[label])), float(weights @ gains[label])

    unknown = math.inf
    while left := [label for label in gains if label not in order]:
        order.append(max(left, key=adds))
        improved = np.maximum(best, gains[order[-1]])
        if weights @ improved <= weights @ best:
            unknown = min(unknown, len(order) - 1.5)
        best = improved
    return sorted(remedies, key=lambda each: order.index(each.label) if each.label in order else unknown)

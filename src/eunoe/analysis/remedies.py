"""Remedies: changes of a config that may lower forgetting. `diagnose` proposes them, `cure` searches them."""

import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eunoe.config.schema import Config
from eunoe.config.settings import merge


@dataclass(frozen=True)
class Remedy:
    """Changes of a run's config, why they may help, when they apply, and what they cost.

    - `changes`: nested config values. `lr` and `epochs` are factors on the run's own values.
    - `labels`: only if the clients' class mixes differ. `dead`: only if the run learned nothing. `below`:
      only for learning rates below it.
    - `cost`: time of local training relative to plain training.
    """

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
    lr: float = 1.0
    epochs: float = 1.0
    labels: bool = False
    dead: bool = False
    below: float = math.inf
    cost: float = 1.0

    def apply(self, values: Mapping[str, Any], config: Config) -> dict[str, Any] | None:
        """Return the values with the changes made, or None if they cannot be made."""
        training: dict[str, Any] = {}
        if self.lr != 1:
            training["lr"] = float(f"{config.training.lr * self.lr:.4g}")
        if self.epochs != 1:
            epochs = config.training.epochs
            if config.training.steps is not None or not isinstance(epochs, int) or epochs < 2:
                return None
            training["epochs"] = max(1, round(epochs * self.epochs))
        return merge(values, self.changes, {"training": training} if training else {})

    @property
    def settings(self) -> tuple[str, ...]:
        """The changes in the form of --set."""
        return tuple(f"{path}={value}" for path, value in self._flat())

    def command(self, config: str, name: str = "") -> str:
        """Return the command that runs a config with these changes, under its own name if it has one."""
        changes = [setting.rpartition(".name=")[2] for setting in self.settings]
        named = (f"name={' + '.join([name, *changes])}",) if name else ()
        settings = [f"--set {shlex.quote(setting)}" for setting in (*self.settings, *named)]
        return " ".join(["eunoe run", shlex.quote(config), *settings])

    def config_change(self) -> str:
        """Describe the change to make in the config of a Flower app."""
        changes = [f"{path} = {json.dumps(value)}" for path, value in self._flat()]
        return f"in config.toml of the app: {', '.join(changes)}"

    def is_new_to(self, config: Mapping[str, Any]) -> bool:
        """Whether the run lacks this averaging or replay, or one of the named components."""
        if any(config.get(key) for key in ("averaging", "replay") if key in self.changes):
            return False
        names = {
            section: change["name"]
            for section, change in self.changes.items()
            if isinstance(change, Mapping) and "name" in change
        }
        return not names or any(config[section]["name"] != name for section, name in names.items())

    def _flat(self) -> list[tuple[str, Any]]:
        flat: list[tuple[str, Any]] = []
        for key, change in self.changes.items():
            options = change.items() if isinstance(change, Mapping) else None
            flat += [(key, change)] if options is None else [(f"{key}.{name}", it) for name, it in options]
        return flat


SERVER_MOMENTUM = {"server_optimizer": {"name": "momentum", "beta": 0.8, "lr": 0.2}}

AVERAGING = Remedy(
    "averaging",
    {"averaging": {"decay": 0.9}},
    "evaluates the mean of the global models; costs clients nothing",
)
WSM = Remedy(
    "wsm",
    {"loss": {"name": "wsm"}},
    "re-weights the softmax by the client's class shares, which spares absent classes",
    labels=True,
)
SCAFFOLD = Remedy(
    "scaffold with server momentum",
    {"method": {"name": "scaffold"}, **SERVER_MOMENTUM},
    "corrects each client's drift by its earlier updates; sends twice the bytes",
    cost=1.1,
)
FEDNTD = Remedy(
    "fedntd",
    {"method": {"name": "fedntd"}},
    "keeps the received model's outputs for the other classes",
    labels=True,
    cost=1.3,
)
FEDPROX = Remedy(
    "fedprox",
    {"method": {"name": "fedprox", "mu": 0.1}},
    "keeps the client's model close to the received one",
    cost=1.1,
)
FLASHBACK = Remedy(
    "flashback",
    {"method": {"name": "flashback"}},
    "distills the clients' models and the last global model into the average, weighted by label counts",
    cost=1.5,
)
FEDDF = Remedy(
    "feddf",
    {"method": {"name": "feddf"}},
    "distills the mean of the clients' outputs into the average",
    cost=1.5,
)
REPLAY = Remedy(
    "replay",
    {"replay": {"memory": 100}},
    "clients keep some samples of each class and train on them again; nothing more is sent",
)

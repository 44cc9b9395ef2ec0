"""Remedies: changes of a config that may lower forgetting. `diagnose` proposes them, `cure` searches them."""

import json
import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from eunoe.config.schema import Config
from eunoe.config.settings import flatten, merge
from eunoe.store.run_records import with_averaging

# Names of factors.
_FACTORS = {
    "0.01": "a hundredth of",
    "0.1": "a tenth of",
    "0.111": "a ninth of",
    "0.333": "a third of",
    "0.5": "half of",
    "2": "twice",
    "3": "three times",
    "9": "nine times",
    "10": "ten times",
}


@dataclass(frozen=True)
class Remedy:
    """Changes of a run's config, why they may help, when they apply, and what they cost.

    - `changes`: nested config values. `lr` and `epochs` are factors on the run's own values; `final_lr` is
      the learning rate of the last round relative to that of the first.
    - `labels`: only if the clients' class mixes differ. `dead`: only if the run learned nothing. `below`:
      only for learning rates below it.
    - `code`: the line that makes the change in a project with a loop of its own, where there is one.
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

    @classmethod
    def method(cls, name: str, reason: str = "", labels: bool = False, **options: Any) -> Self:
        """Return the remedy of another method."""
        return cls(name, {"method": {"name": name, **options}}, reason, labels=labels)

    @property
    def label(self) -> str:
        """The name with the factors; empty for the baseline."""
        rate = _FACTORS.get(f"{self.lr:.3g}", f"{self.lr:.3g} times")
        words = [
            self.name,
            f"{rate} the learning rate" if self.lr != 1 else "",
            "falling learning rate" if self.final_lr != 1 else "",
            f"{_FACTORS[f'{self.epochs:.3g}']} the local epochs" if self.epochs != 1 else "",
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


SERVER_MOMENTUM = {"server_optimizer": {"name": "momentum", "beta": 0.8, "lr": 0.2}}

AVERAGING = Remedy(
    "",
    {"averaging": {"decay": 0.9}},
    "evaluates the mean of the global models; costs clients nothing",
    code="strategy = eunoe.flower.average(strategy), or eunoe.ModelAverage(model) in a loop",
)
WSM = Remedy(
    "wsm",
    {"loss": {"name": "wsm"}},
    "re-weights the softmax by the client's class shares, which spares absent classes",
    labels=True,
    code='loss = eunoe.client_loss("wsm", counts=label_counts), in the clients',
)
SCAFFOLD = Remedy(
    "scaffold with server momentum",
    {"method": {"name": "scaffold"}, **SERVER_MOMENTUM},
    "corrects each client's drift by its earlier updates; sends twice the bytes",
)
FEDNTD = Remedy.method("fedntd", "keeps the received model's outputs for the other classes", labels=True)
FEDPROX = Remedy.method("fedprox", "keeps the client's model close to the received one", mu=0.1)
FLASHBACK = Remedy.method(
    "flashback",
    "distills the clients' models and the last global model into the average, weighted by label counts",
)
FEDDF = Remedy.method("feddf", "distills the mean of the clients' outputs into the average")
REPLAY = Remedy(
    "replay",
    {"replay": {"memory": 100}},
    "clients keep some samples of each class and train on them again; nothing more is sent",
)

"""What the diagnosis proposes: changes of settings, each with a reason, and when they apply to a run."""

import json
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from eunoe.config.settings import parse_value
from eunoe.data.statistics import PartitionNumbers
from eunoe.store.run_records import RunRecords, taking_part


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
        optional = ("averaging", "replay")
        if any(
            config.get(setting.partition(".")[0]) for setting in self.settings if setting.startswith(optional)
        ):
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
PROX = Remedy("hold the client near the received model", ("method.name=fedprox", "method.mu=0.1"))
REPLAY = Remedy(
    "let clients keep some samples of each class and train on them again; nothing more is sent",
    ("replay.memory=100",),
)


def losses(config: Mapping[str, Any], clients: PartitionNumbers | None) -> list[Remedy]:
    decays = clients and clients.single_class_share > 0.1 and config["training"].get("weight_decay")
    spared = ("training.single_class=no_decay",) if decays else ()
    return [
        Remedy(
            "re-weight the softmax by the client's class shares, so absent classes are spared",
            ("loss.name=wsm", *spared),
        ),
        Remedy("keep the received model's view of the other classes", ("method.name=fedntd",)),
        PROX,
    ]


def distillation(config: Mapping[str, Any]) -> list[Remedy]:
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


def participation(run: RunRecords) -> float:
    taking = float(np.mean([taking_part(record) for record in run.metrics]))
    return float("nan") if run.label_counts is None else taking / len(run.label_counts)


def fading(config: Mapping[str, Any]) -> list[Remedy]:
    """What lets a method's knowledge of earlier data fade, for those that have such knowledge."""
    name = config["method"]["name"]
    if name not in ("flashback", "fedcurv") or config["method"].get("decay", 1.0) < 1:
        return []
    return [Remedy("let what is known of earlier data fade", ("method.decay=0.95",))]


def controls(run: RunRecords) -> list[Remedy]:
    """SCAFFOLD, unless the run had it or local momentum, which its corrections do not know."""
    known = run.config["method"]["name"] == "scaffold" or run.config["training"].get("momentum")
    return [] if known else [SCAFFOLD]


def more_clients(run: RunRecords) -> list[Remedy]:
    share = participation(run)
    if share < 0.2 and run.label_counts is not None:
        more = max(2 * round(share * len(run.label_counts)), 2)
        return [Remedy("more clients in a round cover more of the data", (f"participation={more}",))]
    return []


def shorter(run: RunRecords) -> list[Remedy]:
    epochs = run.config["training"].get("epochs", 1)
    if isinstance(epochs, int) and epochs > 1 and not run.config["training"].get("steps"):
        return [Remedy("less local training drifts less", (f"training.epochs={max(1, epochs // 2)}",))]
    return []

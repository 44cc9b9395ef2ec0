"""Whether the networks of some runs have learned enough for a verdict on a claim about them.

They have if FedAvg reaches a third of the accuracy that the same network reaches when it is trained in one
place on all data, and twice that of guessing. What FedAvg reaches is the median of the test accuracies of the
last third of its rounds, averaged over seeds, at its best learning rate and norm; where clients, shares or
epochs are varied, in the setting where it reaches least. Where there is no FedAvg, the median one of the
lines counts. Runs that diverged do not count.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from eunoe.data.specs import SPECS
from eunoe.papers.exhibit import PlannedRun
from eunoe.papers.keys import Key
from eunoe.papers.measures import Outcome

# Test accuracy of central training on all data, by data set and network: those of `central-bounds` that are
# stored, seed 0, after the last of 10 epochs (the whole CNN: 16, LeNet on CIFAR-100: 60). Where there is none
# on smaller images, a network is held to what it reaches on whole ones, which is stricter; other networks are
# held to 1.
CENTRAL: dict[tuple[str, str], float] = {
    ("cifar10", "cnn"): 0.716,
    ("cifar10", "cnn of width 8"): 0.64,
    ("cifar10", "lenet"): 0.535,
    ("cifar10", "lenet on half-size images"): 0.49,
    ("cifar10", "resnet18 of width 8 on half-size images"): 0.652,
    ("cifar100", "lenet"): 0.32,
    ("femnist", "resnet18 of width 8 on half-size images"): 0.845,
    ("mnist", "mnist_cnn"): 0.99,
}

Network = tuple[str, str]
SMALLER = " on "
SIZES = {2: "half-size", 4: "quarter-size"}


def network(values: Mapping[str, Any]) -> Network:
    """The data set and the network of a config; a narrower network or smaller images make another."""
    data, model = values["data"], values["model"]
    width = f" of width {model['width']}" if "width" in model else ""
    pooled = f"{SMALLER}{SIZES[data['pool']]} images" if data.get("pool", 1) > 1 else ""
    return str(data.get("of", data["name"])), f"{model['name']}{width}{pooled}"


def reached(outcome: Outcome, until: float = math.inf) -> float:
    """The accuracy that a run reached by a round: the median of the last third of the rounds with a test."""
    values = [value for number, value in outcome.of("accuracy").items() if number <= until]
    return statistics.median(values[-max(1, len(values) // 3) :]) if values else 0.0


def needed(which: Network) -> float:
    """The accuracy that a trained network has at least."""
    data, name = which
    chance = 1 / SPECS[data].classes if data in SPECS else 0.0
    central = CENTRAL.get(which) or CENTRAL.get((data, name.partition(SMALLER)[0]), 1.0)
    return max(central / 3, 2 * chance)


@dataclass(frozen=True)
class Reached:
    """What FedAvg, or the median line where there is none, reaches with a network, and what is needed."""

    network: Network
    who: str
    accuracy: float
    needed: float
    until: float = math.inf
    accuracy_until: float = math.nan

    def text(self) -> str:
        """What is reached, in short."""
        early = f" ({self.accuracy_until:.0%} by round {self.until:.0f})" * (self.until < math.inf)
        return f"{self.who} {self.accuracy:.0%}{early}"


def what_is_reached(outcomes: Sequence[tuple[PlannedRun, Outcome]], until: float = math.inf) -> list[Reached]:
    """For each network of these runs, what FedAvg reaches with it at all, and by a round."""
    early = _what_is_reached(outcomes, until)
    return [
        replace(one, until=until, accuracy_until=then.accuracy)
        for one, then in zip(_what_is_reached(outcomes), early, strict=True)
    ]


def _what_is_reached(
    outcomes: Sequence[tuple[PlannedRun, Outcome]], until: float = math.inf
) -> list[Reached]:
    by_network: dict[Network, dict[Key, list[float]]] = {}
    plain: set[Key] = set()
    for planned, outcome in outcomes:
        if not outcome.diverged:
            lines = by_network.setdefault(network(planned.values), {})
            lines.setdefault(planned.key, []).append(reached(outcome, until))
            plain |= {planned.key} if is_fedavg(planned) else set()
    found = []
    for which, lines in by_network.items():
        means = {line: statistics.fmean(values) for line, values in lines.items()}
        # The best line of each setting that is varied.
        best: dict[Key, float] = {}
        for line in means.keys() & plain:
            setting = line.but(lr="", norm="", augment="", method="")
            best[setting] = max(means[line], best.get(setting, 0.0))
        who = "FedAvg" if best else "the median line"
        accuracy = min(best.values()) if best else statistics.median_low(means.values())
        found.append(Reached(which, who, accuracy, needed(which)))
    return found


def untrained(reached: Sequence[Reached]) -> str:
    """Why networks that reached this are too little trained for a verdict; empty if they are not."""
    for one in reached:
        if one.accuracy < one.needed:
            return (
                f"{one.who} reaches {one.accuracy:.1%} on {one.network[0]}, and {one.needed:.1%} are needed"
            )
    return ""


def is_fedavg(planned: PlannedRun) -> bool:
    """Whether a run is of FedAvg as it is, without another loss, server or other addition."""
    values = planned.values
    server = values.get("server_optimizer", {"name": "sgd"})["name"]
    plain = (values["method"]["name"], values["loss"]["name"], server) == ("fedavg", "ce", "sgd")
    # Of a line such as `fedavg+fine-tuning` the name says that it is more than FedAvg.
    return plain and "compress" not in values and "+" not in str(planned.key.get("method"))

"""FedNova is FedAvg where all clients take equally many steps, and differs from it where they do not."""

from eunoe.papers.claims import Claim, Values
from eunoe.papers.comparisons import above
from eunoe.papers.exhibit import Exhibit, Variant
from eunoe.papers.exhibits.common import LENET, reweighting
from eunoe.papers.exhibits.methods_with_wsm import DRAWN, METHODS
from eunoe.papers.keys import Key, key
from eunoe.papers.measures import height


def identity(epochs: str, method: str) -> Key:
    """A line of the comparison of FedNova and FedAvg."""
    return key(data="cifar10", epochs=epochs, method=method)


def fednova_is_fedavg(values: Values) -> float | None:
    """How much further FedNova is from FedAvg with unequal steps than with equal."""
    equal, drawn = (
        above(identity(epochs, "fednova"), identity(epochs, "fedavg"))(values)
        for epochs in ("equal", "drawn")
    )
    return None if equal is None or drawn is None else min(0.001, abs(drawn)) - abs(equal)


EXHIBITS = (
    Exhibit(
        "fednova-identity",
        reweighting(
            "wsm", LENET, {"rounds": 20, "training": {"lr": 0.01}, "evaluation": {"every": 1, "last": 1}}
        ),
        (
            Variant(identity("equal", "fedavg"), {}),
            Variant(identity("equal", "fednova"), {"method": {"name": "fednova"}}),
            Variant(identity("drawn", "fedavg"), DRAWN),
            Variant(identity("drawn", "fednova"), METHODS["fednova"]),
        ),
        {"": height("accuracy")},
        (
            Claim(
                "FedNova is FedAvg (mean over rounds, to a tenth of a point) with equal steps, and "
                "not with drawn epochs",
                fednova_is_fedavg,
            ),
        ),
        {"rounds": 8, "probes": []},
        needs_training=False,
    ),
)

"""Table 3 of the WSM paper: LeNet, each method at its best learning rate; also without augmentation."""

from eunoe.config.settings import merge
from eunoe.papers.claims import Claim, Values
from eunoe.papers.comparisons import best_gain
from eunoe.papers.exhibit import Config, Exhibit, Variant
from eunoe.papers.exhibits.common import LENET, SLOW_LENET, WSM, reweighting, reweighting_data
from eunoe.papers.exhibits.learning_rates import ACCURACY
from eunoe.papers.keys import key

CIFAR10 = reweighting_data("cifar10", "wsm")
CIFAR100 = reweighting_data("cifar100", "wsm")
UNAUGMENTED = key(data="cifar100", augment="unaugmented")
PLAIN: Config = {"augment": {"crop_padding": 0, "flip": False}}


def rate(lr: float) -> Config:
    """A learning rate."""
    return {"training": {"lr": lr}}


def gain(values: Values) -> float | None:
    """How much WSM gains on FedAvg on the data where it gains least, both augmented as in the table."""
    augmented = {cell: value for cell, value in values.items() if cell.has(augment="")}
    return best_gain("fedavg+wsm", "fedavg")(augmented)


EXHIBITS = (
    Exhibit(
        "wsm-table3",
        reweighting("wsm", LENET, rate(0.01)),
        (
            Variant(key(data="cifar10", method="fedavg"), CIFAR10),
            Variant(key(data="cifar10", method="fedavg+wsm"), merge(CIFAR10, WSM)),
            Variant(key(data="cifar100", method="fedavg"), merge(CIFAR100, rate(0.005))),
            Variant(key(data="cifar100", method="fedavg+wsm"), merge(CIFAR100, WSM)),
            Variant(key(data="cifar100", lr=0.01, method="fedavg"), CIFAR100),
            Variant(UNAUGMENTED.but(method="fedavg"), merge(CIFAR100, PLAIN)),
            Variant(UNAUGMENTED.but(method="fedavg+wsm"), merge(CIFAR100, PLAIN, WSM)),
        ),
        ACCURACY,
        (Claim("WSM beats FedAvg with LeNet (with crop and flip)", gain),),
        # In minutes LeNet learns nothing of CIFAR-100.
        merge(SLOW_LENET, {"partition": {"clients": 30}}),
        (key(data="cifar10", method="fedavg"), key(data="cifar10", method="fedavg+wsm")),
        also="wsm-table5",
    ),
)

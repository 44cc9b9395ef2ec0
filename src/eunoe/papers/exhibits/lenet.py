"""Table 3 of the WSM paper: LeNet, each method at its best learning rate; also without augmentation."""

from eunoe.config.merging import merge
from eunoe.papers.base import Config, Recipe, Variant
from eunoe.papers.claims import Claim, Values, best_gain
from eunoe.papers.exhibits.common import LENET, WSM, reweighting, reweighting_data
from eunoe.papers.measures import last_rounds

CIFAR10 = reweighting_data("cifar10")
CIFAR100 = reweighting_data("cifar100")
PLAIN: Config = {"augment": {"crop_padding": 0, "flip": False}}


def rate(lr: float) -> Config:
    """A learning rate."""
    return {"training": {"lr": lr}}


def gain(values: Values) -> float:
    """How much WSM gains on FedAvg on the data where it gains least, both augmented as in the table."""
    augmented = {label: value for label, value in values.items() if "unaugmented" not in label}
    return best_gain("fedavg+wsm", "fedavg")(augmented)


RECIPES = (
    Recipe(
        "wsm-table3",
        reweighting("wsm", LENET, rate(0.01)),
        (
            Variant("cifar10 fedavg", CIFAR10),
            Variant("cifar10 fedavg+wsm", merge(CIFAR10, WSM)),
            Variant("cifar100 fedavg", merge(CIFAR100, rate(0.005))),
            Variant("cifar100 fedavg+wsm", merge(CIFAR100, WSM)),
            Variant("cifar100 lr=0.01 fedavg", CIFAR100),
            Variant("cifar100 unaugmented fedavg", merge(CIFAR100, PLAIN)),
            Variant("cifar100 unaugmented fedavg+wsm", merge(CIFAR100, PLAIN, WSM)),
        ),
        {"": last_rounds("accuracy")},
        (Claim("WSM beats FedAvg with LeNet (with crop and flip)", gain),),
        {"rounds": 150, "evaluation": {"every": 50, "last": 5}, "probes": []},
        ("cifar100 lr=0.01 fedavg", "cifar100 fedavg+wsm"),
        also="wsm-table5",
    ),
)

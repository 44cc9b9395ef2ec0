"""Accuracy over rounds at the best learning rates: figure 3 of the TCE paper, 3.2, 3.4, 3.5 of the thesis."""

from eunoe.config.merging import merge
from eunoe.papers.base import Config, Recipe, Variant
from eunoe.papers.claims import Claim, highest, least_gain, mean_gain
from eunoe.papers.exhibits.common import BATCH, GROUP, SMALL_RESNET, TCE, WSM, reweighting, reweighting_data
from eunoe.papers.measures import height


def line(data: str, name: str, lr: float, *changes: Config) -> Variant:
    """One curve."""
    return Variant(f"{data} {name}", merge({"training": {"lr": lr}}, reweighting_data(data), *changes))


# The thesis names no learning rates here: the best of its table 3.3 that are not doubtful.
NORMS = (
    line("cifar10", "fedavg group", 0.05, GROUP),
    line("cifar10", "fedavg+wsm group", 0.05, GROUP, WSM),
    line("cifar10", "fedavg batch", 0.03, BATCH),
    line("cifar10", "fedavg+wsm batch", 0.05, BATCH, WSM),
)
CURVE = {"": height("accuracy")}
ABOVE = "stays above FedAvg (mean accuracy over rounds)"

RECIPES = (
    Recipe(
        "tce-fig3",
        reweighting("tce"),
        (
            line("cifar10", "fedavg group", 0.1, GROUP),
            line("cifar10", "fedavg+tce group", 0.03, GROUP, TCE),
            line("cifar10", "fedavg+tce batch", 0.07, BATCH, TCE),
            line("cifar100", "fedavg group", 0.07, GROUP),
            line("cifar100", "fedavg+tce group", 0.01, GROUP, TCE),
            line("cifar100", "fedavg+tce batch", 0.007, BATCH, TCE),
        ),
        CURVE,
        (
            Claim(f"with batch norm TCE {ABOVE}", least_gain("fedavg+tce batch", "fedavg group")),
            Claim(f"with group norm TCE {ABOVE}", least_gain("fedavg+tce group", "fedavg group")),
        ),
        SMALL_RESNET,
        ("cifar10 fedavg group", "cifar10 fedavg+tce group", "cifar10 fedavg+tce batch"),
    ),
    Recipe(
        "thesis-fig3.2",
        reweighting("thesis"),
        (
            line("cifar10", "fedavg", 0.07),
            line("cifar10", "fedavg+wsm", 0.1, WSM),
            line("cifar100", "fedavg", 0.03),
            line("cifar100", "fedavg+wsm", 0.07, WSM),
            line("femnist", "fedavg", 0.01),
            line("femnist", "fedavg+wsm", 0.03, WSM),
        ),
        CURVE,
        (Claim(f"WSM {ABOVE}", mean_gain("fedavg+wsm", "fedavg")),),
        SMALL_RESNET,
        ("cifar10 fedavg", "cifar10 fedavg+wsm"),
        seeds=1,
    ),
    Recipe(
        "thesis-fig3.4",
        reweighting("thesis"),
        NORMS,
        CURVE,
        (
            Claim(
                "with batch norm WSM learns faster than with group norm",
                mean_gain("fedavg+wsm batch", "fedavg+wsm group"),
            ),
            Claim(
                "with batch norm FedAvg learns faster than with group norm",
                mean_gain("fedavg batch", "fedavg group"),
            ),
        ),
        SMALL_RESNET,
        seeds=1,
    ),
    Recipe(
        "thesis-fig3.5",
        reweighting("thesis", {"rounds": 8000}),
        NORMS,
        CURVE,
        (
            Claim(
                "WSM with batch norm stays above the other three (mean accuracy over rounds)",
                highest("cifar10 fedavg+wsm batch", [other.label for other in NORMS[:3]]),
            ),
        ),
        SMALL_RESNET,
        seeds=1,
    ),
)

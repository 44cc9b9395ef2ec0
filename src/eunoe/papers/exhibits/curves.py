"""Accuracy over rounds at the best learning rates: figure 3 of the TCE paper, 3.2, 3.4, 3.5 of the thesis."""

from eunoe.config.settings import merge
from eunoe.papers.claims import Claim
from eunoe.papers.comparisons import highest, least_gain, mean_gain
from eunoe.papers.exhibit import Config, Exhibit, Variant
from eunoe.papers.exhibits.common import BATCH, GROUP, SMALL_RESNET, TCE, WSM, reweighting, reweighting_data
from eunoe.papers.keys import key
from eunoe.papers.measures import height


def line(paper: str, data: str, name: str, lr: float, *changes: Config) -> Variant:
    """One curve."""
    return Variant(
        key(data=data, method=name), merge({"training": {"lr": lr}}, reweighting_data(data, paper), *changes)
    )


# The thesis names no learning rates here: the best of its table 3.3 that are not doubtful.
NORMS = (
    line("thesis", "cifar10", "fedavg group", 0.05, GROUP),
    line("thesis", "cifar10", "fedavg+wsm group", 0.05, GROUP, WSM),
    line("thesis", "cifar10", "fedavg batch", 0.03, BATCH),
    line("thesis", "cifar10", "fedavg+wsm batch", 0.05, BATCH, WSM),
)
CURVE = {"": height("accuracy")}
ABOVE = "is above FedAvg on average (mean accuracy over rounds)"

EXHIBITS = (
    Exhibit(
        "tce-fig3",
        reweighting("tce"),
        (
            line("tce", "cifar10", "fedavg group", 0.1, GROUP),
            line("tce", "cifar10", "fedavg+tce group", 0.03, GROUP, TCE),
            line("tce", "cifar10", "fedavg+tce batch", 0.07, BATCH, TCE),
            line("tce", "cifar100", "fedavg group", 0.07, GROUP),
            line("tce", "cifar100", "fedavg+tce group", 0.01, GROUP, TCE),
            line("tce", "cifar100", "fedavg+tce batch", 0.007, BATCH, TCE),
        ),
        CURVE,
        (
            Claim(f"with batch norm TCE {ABOVE}", least_gain("fedavg+tce batch", "fedavg group")),
            Claim(f"with group norm TCE {ABOVE}", least_gain("fedavg+tce group", "fedavg group")),
        ),
        SMALL_RESNET,
        tuple(
            key(data="cifar10", method=m) for m in ("fedavg group", "fedavg+tce group", "fedavg+tce batch")
        ),
    ),
    Exhibit(
        "thesis-fig3.2",
        reweighting("thesis"),
        (
            line("thesis", "cifar10", "fedavg", 0.07),
            line("thesis", "cifar10", "fedavg+wsm", 0.1, WSM),
            line("thesis", "cifar100", "fedavg", 0.03),
            line("thesis", "cifar100", "fedavg+wsm", 0.07, WSM),
            line("thesis", "femnist", "fedavg", 0.01),
            line("thesis", "femnist", "fedavg+wsm", 0.03, WSM),
        ),
        CURVE,
        (Claim(f"WSM {ABOVE}", mean_gain("fedavg+wsm", "fedavg")),),
        SMALL_RESNET,
        (key(data="cifar10", method="fedavg"), key(data="cifar10", method="fedavg+wsm")),
        seeds=1,
    ),
    Exhibit(
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
    Exhibit(
        "thesis-fig3.5",
        reweighting("thesis", {"rounds": 8000}),
        NORMS,
        CURVE,
        (
            Claim(
                "WSM with batch norm is above the other three on average (mean accuracy over rounds)",
                highest(NORMS[3].key, [other.key for other in NORMS[:3]]),
            ),
        ),
        SMALL_RESNET,
        seeds=1,
    ),
)

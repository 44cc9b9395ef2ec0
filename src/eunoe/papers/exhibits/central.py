"""Central training: all data in one place, an upper bound, and the public data alone, a lower one."""

from eunoe.config.settings import merge
from eunoe.papers.claims import Claim
from eunoe.papers.comparisons import mean_gain
from eunoe.papers.exhibit import Config, Exhibit, Variant
from eunoe.papers.exhibits.common import (
    BATCH,
    CENTRAL,
    FEDCURV,
    FLASHBACK,
    LENET,
    MEDIUM_RESNET,
    reweighting,
    reweighting_data,
)
from eunoe.papers.keys import Key, key
from eunoe.papers.measures import last_rounds

NARROW: Config = {"model": {"width": 8}}
ROUNDS: Config = {"rounds": 60, "public": {"share": 0.025}, "evaluation": {"every": 1, "last": 1}}
LENET_AT_HUNDREDTH = reweighting("wsm", LENET, {"training": {"lr": 0.01}})
HALVED: Config = {"data": {"pool": 2}, "augment": {"crop_padding": 2}}

FEMNIST = reweighting_data("femnist", "wsm")


def bounds(line: Key, setting: Config) -> tuple[Variant, Variant]:
    """The two bounds of a federated setting."""
    public = merge(setting, CENTRAL, ROUNDS)
    everything = merge(public, {"method": {"on": "all"}})
    return Variant(line.but(method="all"), everything), Variant(line.but(method="public"), public)


def line(data: str, model: str) -> Key:
    """The setting of two bounds."""
    return key(data=data, model=model)


EXHIBITS = (
    Exhibit(
        "central-bounds",
        {},
        (
            *bounds(line("cifar10", "cnn"), FLASHBACK),
            *bounds(line("cifar10", "lenet"), LENET_AT_HUNDREDTH),
            *bounds(line("cifar100", "lenet"), merge(LENET_AT_HUNDREDTH, {"data": {"name": "cifar100"}})),
            *bounds(line("cifar10", "resnet18"), reweighting("wsm", BATCH)),
            # The networks of small and medium scale.
            *bounds(line("cifar10", "cnn width=8"), merge(FLASHBACK, NARROW)),
            *bounds(line("cifar10", "resnet18 width=8"), reweighting("wsm", BATCH, MEDIUM_RESNET)),
            *bounds(
                line("femnist", "resnet18 width=8"),
                reweighting("wsm", BATCH, FEMNIST, MEDIUM_RESNET, {"augment": FEMNIST["augment"]}),
            ),
            *bounds(line("cifar10", "lenet pool=2"), reweighting("wsm", LENET, HALVED)),
            *bounds(line("mnist", "mnist_cnn"), merge(FEDCURV, {"training": {"batch_size": 64}})),
        ),
        {"": last_rounds("accuracy")},
        (Claim("all data in one place beat the public data alone", mean_gain("all", "public")),),
        {"rounds": 10, "probes": []},
        tuple(
            setting.but(method=method)
            for setting in (
                line("cifar10", "lenet"),
                line("cifar100", "lenet"),
                line("cifar10", "cnn width=8"),
                line("cifar10", "resnet18 width=8"),
                line("femnist", "resnet18 width=8"),
                line("cifar10", "lenet pool=2"),
                line("mnist", "mnist_cnn"),
            )
            for method in ("all", "public")
        ),
        needs_training=False,
        seeds=1,
    ),
)

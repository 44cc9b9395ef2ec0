"""Central training: all data in one place, an upper bound, and the public data alone, a lower one."""

from eunoe.config.merging import merge
from eunoe.papers.base import Config, Recipe, Variant
from eunoe.papers.claims import Claim, mean_gain
from eunoe.papers.exhibits.common import BATCH, CENTRAL, FEDCURV, FLASHBACK, LENET, reweighting
from eunoe.papers.measures import last_rounds

ROUNDS: Config = {"rounds": 60, "public": {"share": 0.025}, "evaluation": {"every": 1, "last": 1}}
LENET_AT_HUNDREDTH = reweighting("wsm", LENET, {"training": {"lr": 0.01}})


def bounds(name: str, setting: Config) -> tuple[Variant, Variant]:
    """The two bounds of a federated setting."""
    public = merge(setting, CENTRAL, ROUNDS)
    return Variant(f"{name} all", merge(public, {"method": {"on": "all"}})), Variant(f"{name} public", public)


RECIPES = (
    Recipe(
        "central-bounds",
        {},
        (
            *bounds("cifar10 cnn", FLASHBACK),
            *bounds("cifar10 lenet", LENET_AT_HUNDREDTH),
            *bounds("cifar100 lenet", merge(LENET_AT_HUNDREDTH, {"data": {"name": "cifar100"}})),
            *bounds("cifar10 resnet18", reweighting("wsm", BATCH)),
            *bounds("mnist mnist_cnn", merge(FEDCURV, {"training": {"batch_size": 64}})),
        ),
        {"": last_rounds("accuracy")},
        (Claim("all data in one place beat the public data alone", mean_gain("all", "public")),),
        {"rounds": 3, "probes": []},
        ("cifar10 lenet all", "cifar10 lenet public", "mnist mnist_cnn all", "mnist mnist_cnn public"),
        seeds=1,
    ),
)

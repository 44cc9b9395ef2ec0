"""Central training: all data in one place, an upper bound, and the public data alone, a lower one.

One client that owns everything and trains for one epoch a round is central training."""

from eunoe.recipes.base import Config, Recipe, Variant, merge
from eunoe.recipes.claims import Claim, mean_gain
from eunoe.recipes.common import BATCH, FEDCURV, FLASHBACK, LENET, reweighting
from eunoe.recipes.measures import last_rounds

CENTRAL: Config = {
    "rounds": 60,
    "participation": 1.0,
    "partition": {"name": "iid", "clients": 1},
    "training": {"epochs": 1},
    "evaluation": {"every": 1, "last": 1},
}


def central(common: Config, *changes: Config) -> Config:
    """A federated setting with everything in one place; there is no public set to put aside."""
    everything = merge(common, *changes, CENTRAL)
    everything.pop("public", None)
    return everything


def bounds(name: str, setting: Config, public: int) -> tuple[Variant, Variant]:
    """The two bounds of a setting."""
    return (
        Variant(f"{name} all", setting),
        Variant(f"{name} public", merge(setting, {"data": {"limit": public}})),
    )


RECIPES = (
    Recipe(
        "central-bounds",
        {},
        (
            *bounds("cifar10 cnn", central(FLASHBACK), 1125),
            *bounds("cifar10 lenet", central(reweighting("wsm", LENET, {"training": {"lr": 0.01}})), 1125),
            *bounds(
                "cifar100 lenet",
                central(reweighting("wsm", LENET, {"training": {"lr": 0.01}, "data": {"name": "cifar100"}})),
                1125,
            ),
            *bounds("cifar10 resnet18", central(reweighting("wsm", BATCH)), 1125),
            *bounds("mnist mnist_cnn", central(FEDCURV, {"training": {"batch_size": 64}}), 1500),
        ),
        {"": last_rounds("accuracy")},
        (Claim("all data in one place beat the public data alone", mean_gain("all", "public")),),
        {"rounds": 3},
        ("cifar10 lenet all", "cifar10 lenet public", "mnist mnist_cnn all", "mnist mnist_cnn public"),
        seeds=1,
    ),
)

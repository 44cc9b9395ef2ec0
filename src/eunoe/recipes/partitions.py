"""How skewed the label mixes are: figure 3.1 of the thesis, 2 and 10 of the WSM paper, 7 of Flashback.

One step of one client is all the training: the run records the label counts of all clients."""

from eunoe.recipes.base import Config, Recipe, Variant, merge
from eunoe.recipes.claims import Claim
from eunoe.recipes.common import FLASHBACK, LENET, reweighting
from eunoe.recipes.flashback import DATA
from eunoe.recipes.measures import at_end

ONE_STEP: Config = {
    "rounds": 1,
    "participation": 1,
    "training": {"epochs": 1, "steps": 1},
    "evaluation": {"every": 0, "last": 0},
}
CLASSES = {"": at_end("classes_per_client", "classes")}


def mixes(*alphas: float) -> tuple[Variant, ...]:
    """A line for each alpha."""
    return tuple(Variant(f"cifar10 alpha={alpha}", {"partition": {"alpha": alpha}}) for alpha in alphas)


def fewer(first: float, second: float) -> Claim:
    """The claim that clients have fewer classes at the first alpha than at the second."""
    return Claim(
        f"clients have fewer classes at alpha {first} than at {second}",
        lambda v: v[f"cifar10 alpha={second}"] - v[f"cifar10 alpha={first}"],
        "classes",
    )


SETTING = reweighting("wsm", LENET, ONE_STEP)

RECIPES = (
    Recipe(
        "thesis-fig3.1", SETTING, mixes(0.01, 0.1, 0.5, 100), CLASSES, (fewer(0.01, 0.1), fewer(0.1, 0.5)), {}
    ),
    Recipe(
        "wsm-fig2",
        SETTING,
        mixes(0.1),
        CLASSES,
        (Claim("a client lacks most of the ten classes", lambda v: 5 - v["cifar10 alpha=0.1"], "classes"),),
        {},
    ),
    Recipe("wsm-fig10", SETTING, mixes(0.01, 0.5, 100), CLASSES, (fewer(0.01, 0.5), fewer(0.5, 100)), {}),
    Recipe(
        "flashback-fig7",
        merge(FLASHBACK, LENET, ONE_STEP),
        tuple(Variant(data, merge(changes, {"participation": 1})) for data, changes in DATA.items()),
        CLASSES,
        (Claim("a client lacks most of the ten classes", lambda v: 5 - v["cifar10"], "classes"),),
        {},
        ("cifar10",),
    ),
)

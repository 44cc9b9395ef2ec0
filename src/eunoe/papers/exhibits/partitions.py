"""How skewed the label mixes are: figure 3.1 of the thesis, 2 and 10 of the WSM paper, 7 of Flashback.

One step of one client is all the training: the run records the label counts of all clients."""

from typing import TYPE_CHECKING

from eunoe.config.merging import merge
from eunoe.data.statistics import per_client
from eunoe.papers.base import Config, Recipe, Variant
from eunoe.papers.claims import Claim
from eunoe.papers.exhibits.common import FLASHBACK, LENET, reweighting
from eunoe.papers.exhibits.flashback import DATA
from eunoe.papers.measures import at_end

if TYPE_CHECKING:
    from eunoe.runs.run import Run as FinishedRun

ONE_STEP: Config = {
    "rounds": 1,
    "participation": 1,
    "training": {"epochs": 1, "steps": 1},
    "evaluation": {"every": 0, "last": 0},
    "probes": [],
}
CLASSES = {"": at_end("classes_per_client", "classes")}


def classes_per_client(run: "FinishedRun") -> dict[str, float]:
    """How many classes a client has on average."""
    clients = per_client(run.simulation.federation.all_counts())
    return {"classes_per_client": float(clients.classes.mean())}


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


def recipe(name: str, common: Config, variants: tuple[Variant, ...], claims: tuple[Claim, ...]) -> Recipe:
    """A figure of label mixes; small scale keeps what is on CIFAR-10."""
    kept = tuple(variant.label for variant in variants if variant.label.startswith("cifar10"))
    return Recipe(
        name, common, variants, CLASSES, claims, {}, kept, after=classes_per_client, draws="partition"
    )


FEW = "a client has fewer than half of the ten classes"

RECIPES = (
    recipe("thesis-fig3.1", SETTING, mixes(0.01, 0.1, 0.5, 100), (fewer(0.01, 0.1), fewer(0.1, 0.5))),
    recipe("wsm-fig2", SETTING, mixes(0.1), (Claim(FEW, lambda v: 5 - v["cifar10 alpha=0.1"], "classes"),)),
    recipe("wsm-fig10", SETTING, mixes(0.01, 0.5, 100), (fewer(0.01, 0.5), fewer(0.5, 100))),
    recipe(
        "flashback-fig7",
        merge(FLASHBACK, LENET, ONE_STEP),
        tuple(Variant(data, merge(changes, {"participation": 1})) for data, changes in DATA.items()),
        (Claim(FEW, lambda v: 5 - v["cifar10"], "classes"),),
    ),
)

"""How skewed the label mixes are: figure 3.1 of the thesis, 2 and 10 of the WSM paper, 7 of Flashback.

One step of one client is all the training: the run records the label counts of all clients."""

from eunoe.config.settings import merge
from eunoe.data.statistics import per_client
from eunoe.papers.claims import Claim
from eunoe.papers.comparisons import above, stays_below
from eunoe.papers.exhibit import Config, Exhibit, Variant
from eunoe.papers.exhibits.common import FLASHBACK, LENET, reweighting
from eunoe.papers.exhibits.flashback import DATA
from eunoe.papers.keys import key
from eunoe.papers.measures import at_end
from eunoe.simulation.run import Run

ONE_STEP: Config = {
    "rounds": 1,
    "participation": 1,
    "training": {"epochs": 1, "steps": 1},
    "evaluation": {"every": 0, "last": 0},
    "probes": [],
}
CLASSES = {"": at_end("classes_per_client", "classes")}


def classes_per_client(run: Run) -> dict[str, float]:
    """How many classes a client has on average."""
    clients = per_client(run.simulation.federation.all_counts())
    return {"classes_per_client": float(clients.classes.mean())}


def mixes(*alphas: float) -> tuple[Variant, ...]:
    """A line for each alpha."""
    return tuple(
        Variant(key(data="cifar10", alpha=alpha), {"partition": {"alpha": alpha}}) for alpha in alphas
    )


def fewer(first: float, second: float) -> Claim:
    """The claim that clients have fewer classes at the first alpha than at the second."""
    return Claim(
        f"clients have fewer classes at alpha {first} than at {second}",
        above(key(data="cifar10", alpha=second), key(data="cifar10", alpha=first)),
        "classes",
    )


SETTING = reweighting("wsm", LENET, ONE_STEP)


def exhibit(name: str, common: Config, variants: tuple[Variant, ...], claims: tuple[Claim, ...]) -> Exhibit:
    """A figure of label mixes; small scale keeps what is on CIFAR-10."""
    kept = tuple(variant.key for variant in variants if variant.key.has(data="cifar10"))
    return Exhibit(
        name,
        common,
        variants,
        CLASSES,
        claims,
        {},
        kept,
        needs_training=False,
        after=classes_per_client,
        draws="partition",
    )


FEW = "a client has fewer than half of the ten classes"

EXHIBITS = (
    exhibit("thesis-fig3.1", SETTING, mixes(0.01, 0.1, 0.5, 100), (fewer(0.01, 0.1), fewer(0.1, 0.5))),
    exhibit(
        "wsm-fig2",
        SETTING,
        mixes(0.1),
        (Claim(FEW, stays_below(key(data="cifar10", alpha=0.1), 5), "classes"),),
    ),
    exhibit("wsm-fig10", SETTING, mixes(0.01, 0.5, 100), (fewer(0.01, 0.5), fewer(0.5, 100))),
    exhibit(
        "flashback-fig7",
        merge(FLASHBACK, LENET, ONE_STEP),
        tuple(
            Variant(key(data=data), merge(changes, {"participation": 1})) for data, changes in DATA.items()
        ),
        (Claim(FEW, stays_below(key(data="cifar10"), 5), "classes"),),
    ),
)

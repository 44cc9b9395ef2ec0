"""Heat-maps of local forgetting at one round: figures 2, 5, 6, 7 of the TCE paper, 2.2, A.1, A.2 of the
thesis, 3, 7, 8, 9 of the WSM paper. The figures of a paper come from the same two runs."""

from eunoe.recipes.base import Config, Recipe, Variant, merge
from eunoe.recipes.claims import Claim, mean_loss
from eunoe.recipes.common import BATCH, GROUP, LENET, SMALL_RESNET, TCE, WSM, reweighting
from eunoe.recipes.measures import nearest_round

# For each paper: its loss, that loss with its norm, and the figures with their rounds.
PAPERS: dict[str, tuple[str, Config, dict[str, int]]] = {
    "tce": ("tce", {**GROUP, **TCE}, {"fig2": 2800, "fig5": 1, "fig6": 2000, "fig7": 4000}),
    "thesis": ("wsm", WSM, {"fig2.2": 2800, "figA.1": 1, "figA.2": 4000}),
    "wsm": ("wsm", {**BATCH, **WSM}, {"fig3": 1200, "fig7": 1, "fig8": 3600, "fig9": 4000}),
}
SMALL_PROBES: Config = {"probes": {"rounds": [1, 6, 12]}}


def recipe(paper: str, figure: str, *changes: Config, name: str = "", small: Config = SMALL_RESNET) -> Recipe:
    """The heat-map of a paper's figure, for FedAvg and for the paper's loss."""
    loss, changed, rounds = PAPERS[paper]
    probes: Config = {"probes": {"client_forgetting": True, "rounds": sorted(rounds.values())}}
    first = f"{paper}-{next(iter(rounds))}"
    exhibit = f"{paper}-{figure}"
    return Recipe(
        name or exhibit,
        reweighting(paper, probes, *changes),
        (
            Variant("cifar10 fedavg", {}),
            Variant(f"cifar10 fedavg+{loss}", WSM if LENET in changes else changed),
        ),
        {"": nearest_round("local_forgetting", rounds[figure])},
        (
            Claim(
                f"{loss.upper()} forgets less of the other clients' data at round {rounds[figure]}",
                mean_loss(f"fedavg+{loss}", "fedavg"),
            ),
        ),
        merge(small, SMALL_PROBES),
        exhibit_name=exhibit,
        shares="" if name or exhibit == first else first,
    )


RECIPES = (
    *(recipe(paper, figure) for paper, (_, _, figures) in PAPERS.items() for figure in figures),
    recipe(
        "wsm",
        "fig3",
        LENET,
        {"training": {"lr": 0.01}},
        name="wsm-fig3-lenet",
        small={"rounds": 60, "evaluation": {"every": 10, "last": 20}},
    ),
)

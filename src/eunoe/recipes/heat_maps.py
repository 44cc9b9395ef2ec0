"""Heat-maps of local forgetting at one round: figures 2, 5, 6, 7 of the TCE paper, 2.2, A.1, A.2 of the
thesis, 3, 7, 8, 9 of the WSM paper. The figures of a paper come from the same two runs."""

from eunoe.recipes.base import Config, Recipe, Variant, merge
from eunoe.recipes.claims import Claim, mean_loss
from eunoe.recipes.common import BATCH, GROUP, SMALL_RESNET, TCE, WSM, reweighting
from eunoe.recipes.measures import at_fraction

# For each paper: its loss, that loss with its norm, and the figures with their rounds.
PAPERS: dict[str, tuple[str, Config, dict[str, int]]] = {
    "tce": ("tce", {**GROUP, **TCE}, {"fig2": 2800, "fig5": 1, "fig6": 2000, "fig7": 4000}),
    "thesis": ("wsm", WSM, {"fig2.2": 2800, "figA.1": 1, "figA.2": 4000}),
    "wsm": ("wsm", {**BATCH, **WSM}, {"fig3": 1200, "fig7": 1, "fig8": 3600, "fig9": 4000}),
}
ROUNDS = 4000


def recipe(paper: str, figure: str) -> Recipe:
    """The heat-map of a paper's figure, for FedAvg and for the paper's loss."""
    loss, changed, rounds = PAPERS[paper]
    # Rounds as fractions of the run, so that a shorter run is looked at in the same places.
    places = sorted(round / ROUNDS for round in rounds.values())
    probes: Config = {"probes": [{"metric": "client_matrix", "at": places}]}
    fewer: Config = {"probes": [{"metric": "client_matrix", "at": places, "samples": 500}]}
    first = f"{paper}-{next(iter(rounds))}"
    exhibit = f"{paper}-{figure}"
    return Recipe(
        exhibit,
        reweighting(paper, probes),
        (Variant("cifar10 fedavg", {}), Variant(f"cifar10 fedavg+{loss}", changed)),
        {"": at_fraction("local_forgetting", rounds[figure] / ROUNDS)},
        (
            Claim(
                f"{loss.upper()} forgets less of others' data at round {rounds[figure]} of {ROUNDS}",
                mean_loss(f"fedavg+{loss}", "fedavg"),
            ),
        ),
        merge(SMALL_RESNET, fewer),
        draws="client-matrices",
        draws_at=rounds[figure] / ROUNDS,
        shares="" if exhibit == first else first,
    )


RECIPES = tuple(recipe(paper, figure) for paper, (_, _, figures) in PAPERS.items() for figure in figures)

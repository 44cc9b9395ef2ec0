"""Heat-maps of local forgetting at one round: figures 2, 5, 6, 7 of the TCE paper, 2.2, A.1, A.2 of the
thesis, 3, 7, 8, 9 of the WSM paper. The figures of a paper come from the same two runs."""

from eunoe.recipes.base import Config, Recipe, Variant, merge
from eunoe.recipes.claims import Claim, mean_loss
from eunoe.recipes.common import BATCH, GROUP, SMALL_RESNET, TCE, WSM, reweighting
from eunoe.recipes.measures import at_fraction

# For each paper: its loss, that loss with its norm, and the figures with their rounds. What the papers call
# round 1 is the second, as their code counts from 0: before the first there is nothing to forget.
PAPERS: dict[str, tuple[str, Config, dict[str, int]]] = {
    "tce": ("tce", {**GROUP, **TCE}, {"fig2": 2800, "fig5": 2, "fig6": 2000, "fig7": 4000}),
    "thesis": ("wsm", WSM, {"fig2.2": 2800, "figA.1": 2, "figA.2": 4000}),
    "wsm": ("wsm", {**BATCH, **WSM}, {"fig3": 1200, "fig7": 2, "fig8": 3600, "fig9": 4000}),
}
ROUNDS, EARLY = 4000, 2


# Early on the papers claim no advantage for WSM.
FROM_THE_START = Claim("FedAvg forgets others' data from the beginning", lambda v: v["cifar10 fedavg"])


def less(loss: str, round: int) -> Claim:
    """The claim that a loss forgets less than cross-entropy."""
    sentence = f"{loss.upper()} forgets less of others' data at round {round} of {ROUNDS}"
    return Claim(sentence, mean_loss(f"fedavg+{loss}", "fedavg"))


def recipe(paper: str, figure: str) -> Recipe:
    """The heat-map of a paper's figure, for FedAvg and for the paper's loss."""
    loss, changed, rounds = PAPERS[paper]
    # Rounds as fractions of the run, so that a shorter run is looked at in the same places.
    places = sorted(round / ROUNDS for round in rounds.values() if round > EARLY)
    probe: Config = {"metric": "client_matrix", "rounds": [EARLY], "at": places}
    fewer: Config = {"probes": [{**probe, "samples": 500}]}
    first = f"{paper}-{next(iter(rounds))}"
    exhibit = f"{paper}-{figure}"
    return Recipe(
        exhibit,
        reweighting(paper, {"probes": [probe]}),
        (Variant("cifar10 fedavg", {}), Variant(f"cifar10 fedavg+{loss}", changed)),
        {"": at_fraction("local_forgetting", rounds[figure] / ROUNDS)},
        (FROM_THE_START if rounds[figure] == EARLY and loss == "wsm" else less(loss, rounds[figure]),),
        merge(SMALL_RESNET, fewer),
        draws="client-matrices",
        draws_at=rounds[figure] / ROUNDS,
        shares="" if exhibit == first else first,
    )


RECIPES = tuple(recipe(paper, figure) for paper, (_, _, figures) in PAPERS.items() for figure in figures)

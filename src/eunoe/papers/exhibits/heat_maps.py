"""Heat-maps of local forgetting at one round: figures 2, 5, 6, 7 of the TCE paper, 2.2, A.1, A.2 of the
thesis, 3, 7, 8, 9 of the WSM paper. The figures of a paper come from the same runs."""

from eunoe.config.settings import merge
from eunoe.papers.claims import Claim
from eunoe.papers.comparisons import exceeds, mean_loss
from eunoe.papers.exhibit import Config, Exhibit, Variant
from eunoe.papers.exhibits.common import BOTH_NORMS, GROUP, SMALL_RESNET, TCE, WSM, reweighting
from eunoe.papers.keys import key
from eunoe.papers.measures import Measure, at_fraction, in_round

# For each paper: its loss, its norms, and the figures with their rounds. What the papers call round 1 is
# taken as the second, since before the first there is nothing to forget; the first is measured too.
PAPERS: dict[str, tuple[str, dict[str, Config], dict[str, int]]] = {
    "tce": ("tce", {"": GROUP}, {"fig2": 2800, "fig5": 2, "fig6": 2000, "fig7": 4000}),
    "thesis": ("wsm", {"": {}}, {"fig2.2": 2800, "figA.1": 2, "figA.2": 4000}),
    "wsm": ("wsm", BOTH_NORMS, {"fig3": 1200, "fig7": 2, "fig8": 3600, "fig9": 4000}),
}
LOSSES = {"tce": TCE, "wsm": WSM}
ROUNDS, EARLY = 4000, 2


# Early on the papers claim no advantage for WSM.
FROM_THE_START = Claim(
    "FedAvg forgets others' data from the beginning", exceeds(key(data="cifar10", method="fedavg"))
)


def claims(loss: str, where: str) -> tuple[Claim, ...]:
    """The claims that a loss forgets less than cross-entropy and, of WSM, that it prefers own data less."""
    name = loss.upper()
    less = Claim(f"{name} forgets less of others' data {where}", mean_loss(f"fedavg+{loss}", "fedavg"))
    own = Claim(f"{name} gains less on own data {where}", mean_loss(f"fedavg+{loss}", "fedavg", "own"))
    return (less, own) if loss == "wsm" else (less,)


def at(fraction: float) -> dict[str, Measure]:
    """What a heat-map shows: the loss on others' data, and the gain on own data."""
    return {
        "": at_fraction("local_forgetting", fraction),
        "own": at_fraction("own_gain", fraction),
    }


def early() -> dict[str, Measure]:
    """What a heat-map of the beginning shows, and the loss on others' data in the very first round."""
    return {
        "": in_round("local_forgetting", EARLY),
        "own": in_round("own_gain", EARLY),
        "first": in_round("local_forgetting", 1),
    }


def exhibit(paper: str, figure: str) -> Exhibit:
    """The heat-map of a paper's figure, for FedAvg and for the paper's loss."""
    loss, norms, rounds = PAPERS[paper]
    # Rounds as fractions of the run, so that a shorter run is looked at in the same places.
    places = sorted(round / ROUNDS for round in rounds.values() if round > EARLY)
    probe: Config = {"metric": "client_matrix", "rounds": [1, EARLY], "at": places}
    fewer: Config = {"probes": [{**probe, "samples": 500}]}
    first = f"{paper}-{next(iter(rounds))}"
    name = f"{paper}-{figure}"
    where = f"at round {rounds[figure]} of {ROUNDS}"
    return Exhibit(
        name,
        reweighting(paper, {"probes": [probe]}),
        tuple(
            Variant(key(data="cifar10", norm=norm, method=f"fedavg{suffix}"), merge(model, change))
            for norm, model in norms.items()
            for suffix, change in {"": {}, f"+{loss}": LOSSES[loss]}.items()
        ),
        early() if rounds[figure] == EARLY else at(rounds[figure] / ROUNDS),
        (FROM_THE_START,) if rounds[figure] == EARLY and loss == "wsm" else claims(loss, where),
        merge(SMALL_RESNET, fewer),
        draws="client-matrices",
        draws_at=rounds[figure] / ROUNDS,
        shares="" if name == first else first,
    )


EXHIBITS = tuple(exhibit(paper, figure) for paper, (_, _, figures) in PAPERS.items() for figure in figures)

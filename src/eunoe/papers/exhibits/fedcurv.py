"""The FedCurv paper: table 1 and figures 1 and 2, and the search for its penalty weight."""

from eunoe.config.merging import merge
from eunoe.papers.base import Config, Recipe, Variant
from eunoe.papers.claims import Claim, NotReached, Values, lowest, of_converged
from eunoe.papers.exhibits.common import FEDCURV
from eunoe.papers.measures import at_planned_end, height, rounds_to

# The weight depends on the scale of the Fisher information, which the paper does not define. Its grid has
# steps of 10 and then of 2 around the best.
WEIGHTS = (0.1, 0.5, 1.0, 2.0, 10.0)
# The paper counts to the first three; half is what a small run reaches.
ROUNDS_TO = {f"{target:.2f}": rounds_to(target) for target in (0.95, 0.9, 0.85, 0.5)}


def small(rounds: int) -> Config:
    """Some twenty images for each device in place of six hundred."""
    return {"rounds": rounds, "data": {"limit": 2000}, "probes": []}


def methods(epochs: int) -> tuple[Variant, ...]:
    """The three methods, with the weights that the paper found."""
    mu = 2.5e-4 if epochs == 50 else 1e-5
    return (
        Variant("fedcurv", {"method": {"name": "fedcurv", "weight": 1.0}}),
        Variant("fedprox", {"method": {"name": "fedprox", "mu": mu}}),
        Variant("fedavg", {}),
    )


def least_inside(target: str) -> Claim:
    """The claim that the best weight is none of the ends of the grid, by the rounds that it saves."""

    def statistic(values: Values) -> float:
        by_weight = [values[f"weight={weight} {target}"] for weight in WEIGHTS]
        if all(isinstance(value, NotReached) for value in by_weight):
            raise KeyError("no weight gets there")
        ends, inside = (by_weight[0], by_weight[-1]), by_weight[1:-1]
        return of_converged(min, ends) - of_converged(min, inside)

    sentence = f"the fewest rounds to {float(target):.0%} are inside the grid of weights"
    return Claim(sentence, statistic, "rounds")


def recipes(epochs: int, figure: str) -> tuple[Recipe, Recipe]:
    """The half of table 1 for a number of local epochs, and its figure."""
    name = f"fedcurv-table1-e{epochs}"
    common = merge(FEDCURV, {"training": {"epochs": epochs}})
    faster = tuple(
        Claim(
            f"FedCurv reaches {float(target):.0%} in fewer rounds than FedProx and FedAvg",
            lowest(f"fedcurv {target}", (f"fedprox {target}", f"fedavg {target}")),
            "rounds",
            ("fedprox", "fedavg"),
        )
        for target in ROUNDS_TO
    )
    early = "(mean accuracy over the first fifth of the rounds)"
    curves = (
        Claim(f"FedCurv starts above FedAvg {early}", lambda v: v["fedcurv start"] - v["fedavg start"]),
        Claim(f"FedProx starts above FedAvg {early}", lambda v: v["fedprox start"] - v["fedavg start"]),
        Claim("FedCurv ends above FedProx", lambda v: v["fedcurv end"] - v["fedprox end"]),
    )
    read_off = {
        "": height("accuracy"),
        "start": height("accuracy", 0.2),
        "end": at_planned_end("accuracy"),
    }
    shrunk = small(3 if epochs == 50 else 12)
    return (
        Recipe(name, common, methods(epochs), ROUNDS_TO, faster, shrunk, seeds=1),
        Recipe(figure, common, methods(epochs), read_off, curves, shrunk, seeds=1, shares=name),
    )


RECIPES = (
    *recipes(50, "fedcurv-fig1"),
    *recipes(10, "fedcurv-fig2"),
    Recipe(
        "fedcurv-weight",
        merge(FEDCURV, {"rounds": 60, "stop": {"test_target": 0.9}}),
        tuple(Variant(f"weight={w}", {"method": {"name": "fedcurv", "weight": w}}) for w in WEIGHTS),
        {"0.90": rounds_to(0.9), "0.50": rounds_to(0.5)},
        (least_inside("0.90"), least_inside("0.50")),
        small(6),
        seeds=1,
    ),
)

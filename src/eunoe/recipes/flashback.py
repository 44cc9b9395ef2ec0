"""The Flashback paper's comparison of methods: table 1, figures 1 to 5 and 14."""

from eunoe.recipes.base import Config, Recipe, Variant, merge
from eunoe.recipes.claims import Claim, highest, lowest
from eunoe.recipes.common import CENTRAL, FLASHBACK, SMALL_LOCAL_MODELS
from eunoe.recipes.measures import Measure, height, over_rounds, rounds_to

# The paper's target accuracies, of which rounds to 50, 75 and 95% are counted.
TARGETS = {"cifar10": 0.482, "cinic10": 0.435, "femnist": 0.695}
GAMMA = {"cifar10": 0.025, "cinic10": 0.1, "femnist": 0.1}
DATA: dict[str, Config] = {
    "cifar10": {"data": {"name": "cifar10"}},
    "cinic10": {"data": {"name": "cinic10"}, "partition": {"clients": 200}},
    "femnist": {
        "data": {"name": "femnist"},
        # Writers with fewer than 50 samples are left out; 150 writers are the public set.
        "partition": {"name": "natural", "min_size": 43},
        "public": {"share": 0.0, "groups": 150, "min_size": 43},
        # The data set's test part is 15% of each writer's samples; another 15% are to validate on.
        "split": {"validation": 0.15 / 0.85},
        "participation": 32,
    },
}
BASELINES: dict[str, Config] = {
    "fedavg": {"method": {"name": "fedavg"}},
    # FedDF's own local training; the paper names its 40 epochs.
    "feddf": {
        "method": {"name": "feddf", "keep_average": False},
        "training": {
            "epochs": 40,
            "batch_size": 64,
            "lr": 0.1,
            "lr_decay": 1.0,
            "momentum": 0.0,
            "weight_decay": 0.0,
        },
    },
    "fedntd": {"method": {"name": "fedntd"}},
    # Neither the paper nor FedProx's authors have one value for all data.
    "fedprox": {"method": {"name": "fedprox", "mu": 0.1}},
    "fedreg": {
        "method": {"name": "fedreg", "gamma": 0.5, "ps_eta": 0.1},
        "training": {"lr": 0.1, "lr_decay": 1.0, "momentum": 0.0, "weight_decay": 0.0},
    },
    "moon": {
        "method": {"name": "moon", "mu": 5.0},
        "model": {"head": True},
        "training": {"batch_size": 64, "lr_decay": 1.0},
    },
}
# FedReg's authors have other values for handwriting.
OWN: dict[tuple[str, str], Config] = {
    ("femnist", "fedreg"): {"method": {"gamma": 0.4, "ps_eta": 0.05}, "training": {"lr": 0.2}},
}
METHODS = (*BASELINES, "flashback")
# A quarter of the width, on which two cores need seconds a round.
SMALL: Config = {"rounds": 15, "model": {"width": 8}, "probes": []}


def flashback(data: str) -> Config:
    """The paper's method with the trust rate that it has on these data."""
    return {"method": {"name": "flashback", "gamma": GAMMA[data]}}


def methods(data: str, names: tuple[str, ...] = METHODS, prefix: str = "") -> tuple[Variant, ...]:
    """A line for each method."""
    return tuple(
        Variant(
            f"{prefix}{name}",
            merge(
                DATA[data],
                BASELINES[name] if name in BASELINES else flashback(data),
                OWN.get((data, name), {}),
            ),
        )
        for name in names
    )


def table(data: str) -> Recipe:
    """The columns of table 1 for a data set."""
    shares = {"50%": 0.5, "75%": 0.75, "95%": 0.95}
    # A server without a GPU takes hours for what FedDF may do in a few rounds.
    shorter = {
        "feddf steps=3000": {"steps": 3000},
        "feddf steps=3000,keep_average": {"steps": 3000, "keep_average": True},
    }
    fewer = tuple(
        Variant(label, merge(DATA[data], BASELINES["feddf"], {"method": options}))
        for label, options in shorter.items()
    )
    column = "75%" if data == "cinic10" else "50%"
    return Recipe(
        f"flashback-table1-{data}",
        FLASHBACK,
        (*methods(data), *fewer),
        {name: rounds_to(share * TARGETS[data]) for name, share in shares.items()},
        (
            Claim(
                f"Flashback reaches {column} of {TARGETS[data]:.1%} in fewer rounds than every baseline",
                lowest(f"flashback {column}", tuple(f"{name} {column}" for name in (*BASELINES, *shorter))),
                "rounds",
                tuple(BASELINES),
            ),
        ),
        SMALL,
        ("fedavg", "flashback"),
        seeds=1,
    )


FIGURES = {"fig3": "accuracy", "fig4": "distribution", "fig5": "saw-tooth", "fig14": "round-forgetting"}


def by_data(figure: str, measure: Measure, claim: Claim, central: bool = False) -> Recipe:
    """A figure that shows all methods on all three data sets, and central training on the public data."""
    public = tuple(Variant(f"{data} central", merge(changes, CENTRAL)) for data, changes in DATA.items())
    return Recipe(
        f"flashback-{figure}",
        FLASHBACK,
        tuple(variant for data in DATA for variant in methods(data, prefix=f"{data} ")) + public * central,
        {"": measure},
        (claim,),
        merge(SMALL, SMALL_LOCAL_MODELS, {"rounds": 8}),
        ("cifar10 fedavg", "cifar10 fedntd", "cifar10 flashback"),
        seeds=1,
        shares="flashback-fig3" if figure != "fig3" else "",
        draws=FIGURES[figure],
    )


def against_baselines(sentence: str, statistic: str, unit: str = "points") -> Claim:
    """A claim on Flashback against all baselines on CIFAR-10."""
    compare = lowest if statistic == "lowest" else highest
    others = tuple(f"cifar10 {name}" for name in BASELINES)
    return Claim(sentence, compare("cifar10 flashback", others), unit, tuple(BASELINES))


HIGHEST = against_baselines("Flashback is the most accurate (mean over rounds)", "highest")
FORGETS_LEAST = against_baselines("Flashback forgets least in a round", "lowest")
RISES_LEAST = against_baselines("local training raises Flashback's loss least", "lowest", "of loss")

RECIPES = (
    *(table(data) for data in DATA),
    Recipe(
        "flashback-fig1",
        FLASHBACK,
        methods("cifar10", tuple(BASELINES)),
        {"": over_rounds("round_forgetting")},
        (Claim("a round of FedAvg takes more than 5 points from a class", lambda v: v["fedavg"] - 0.05),),
        SMALL,
        ("fedavg",),
        seeds=1,
        shares="flashback-table1-cifar10",
        draws="per-class",
    ),
    Recipe(
        "flashback-fig2",
        FLASHBACK,
        methods("cifar10", ("fedavg", "fedntd", "feddf", "flashback")),
        {"local": over_rounds("lost_locally", first=2), "merge": over_rounds("lost_in_merge", first=2)},
        (
            Claim(
                "Flashback loses less than FedAvg in local training",
                lambda v: v["fedavg local"] - v["flashback local"],
            ),
            Claim(
                "Flashback loses less than FedAvg in the merge",
                lambda v: v["fedavg merge"] - v["flashback merge"],
            ),
        ),
        merge(SMALL, SMALL_LOCAL_MODELS, {"rounds": 6}),
        ("fedavg", "flashback"),
        seeds=1,
        draws="local-models",
    ),
    by_data("fig3", height("accuracy"), HIGHEST, central=True),
    by_data("fig4", over_rounds("round_forgetting"), FORGETS_LEAST),
    by_data("fig5", over_rounds("local_loss_rise", "loss", first=2), RISES_LEAST),
    by_data("fig14", over_rounds("round_forgetting"), FORGETS_LEAST),
)

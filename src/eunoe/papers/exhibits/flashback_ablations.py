"""What makes Flashback work: figures 6, 8 to 13, 15 and 16 of its paper, all on CIFAR-10."""

from eunoe.config.merging import merge
from eunoe.papers.base import Config, Recipe, Variant
from eunoe.papers.claims import Claim, highest, least_gain
from eunoe.papers.exhibits.common import CENTRAL, FLASHBACK, SMALL_LOCAL_MODELS
from eunoe.papers.exhibits.flashback import SMALL, flashback
from eunoe.papers.measures import at_end, drop_from_best, height, last_rounds, over_rounds

OURS = flashback("cifar10")
FINE_TUNED: Config = {"method": {"name": "finetune"}}
CLIENTS_ONLY = merge(OURS, {"method": {"server_epochs": 0}})
SERVER_ONLY = merge(OURS, {"method": {"local": "ce"}})
NOT_TRUE = merge(OURS, {"method": {"local": "ntd"}})
FEDNTD: Config = {"method": {"name": "fedntd"}}
# Shares of the training data: 9000, 1125 and 450 samples after a tenth is put aside for validation.
PUBLIC: dict[str, Config] = {
    "9000": {"public": {"share": 0.2}},
    "1125": {},
    "450": {"public": {"share": 0.01}},
    # The paper does not say how unequal the classes are; here the largest is several times the smallest.
    "1283 unbalanced": {"public": {"share": 0.0, "count": 1426, "alpha": 1.0}},
}
GAMMAS = (0.001, 0.01, 0.025, 0.1, 0.5, 1.0)
FEW: Config = merge(SMALL, SMALL_LOCAL_MODELS, {"rounds": 8})

RECIPES = (
    Recipe(
        "flashback-fig6",
        FLASHBACK,
        (Variant("fedavg+fine-tuning", FINE_TUNED), Variant("flashback", OURS)),
        {"": height("accuracy"), "drop": drop_from_best()},
        (
            Claim(
                "Flashback is more accurate than fine-tuning",
                lambda v: v["flashback"] - v["fedavg+fine-tuning"],
            ),
            Claim(
                "fine-tuning falls further from its best than Flashback",
                lambda v: v["fedavg+fine-tuning drop"] - v["flashback drop"],
            ),
        ),
        FEW,
    ),
    Recipe(
        "flashback-fig8",
        merge(FLASHBACK, {"rounds": 30}),
        (Variant("fedavg", {}),),
        {"": over_rounds("count_accuracy", "correlation")},
        (
            Claim(
                "accuracy on a class goes with a client's label count", lambda v: v["fedavg"], "correlation"
            ),
        ),
        merge(SMALL, SMALL_LOCAL_MODELS, {"rounds": 4}),
        seeds=1,
        draws="one-client",
    ),
    Recipe(
        "flashback-fig9",
        merge(FLASHBACK, {"rounds": 30, "probes": [{"metric": "probability", "every": 1}]}),
        (Variant("fedavg", {}),),
        {"": over_rounds("count_probability", "correlation")},
        (
            Claim(
                "the mean probability of a class goes with its label count",
                lambda v: v["fedavg"],
                "correlation",
            ),
        ),
        merge(SMALL, {"rounds": 4, "probes": [{"metric": "probability", "every": 1}]}),
        seeds=1,
        draws="probabilities",
    ),
    Recipe(
        "flashback-fig10",
        FLASHBACK,
        (
            Variant("flashback", OURS),
            Variant("clients only", CLIENTS_ONLY),
            Variant("server only", SERVER_ONLY),
        ),
        {"": height("accuracy")},
        (
            Claim(
                "either side alone falls short of both", highest("flashback", ("clients only", "server only"))
            ),
        ),
        FEW,
        seeds=1,
    ),
    Recipe(
        "flashback-fig15",
        FLASHBACK,
        (
            Variant("flashback", OURS),
            Variant("clients only", CLIENTS_ONLY),
            Variant("server only", SERVER_ONLY),
        ),
        {"": over_rounds("local_loss_rise", "loss", first=2)},
        (
            Claim(
                "local training raises the loss less with distillation at the clients than without",
                lambda v: v["server only"] - v["clients only"],
                "loss",
            ),
        ),
        FEW,
        seeds=1,
        draws="saw-tooth",
        shares="flashback-fig10",
    ),
    Recipe(
        "flashback-fig11",
        FLASHBACK,
        (Variant("flashback", OURS), Variant("flashback with ntd", NOT_TRUE), Variant("fedntd", FEDNTD)),
        {"": height("accuracy")},
        (
            Claim(
                "Flashback's own loss beats not-true distillation",
                highest("flashback", ("flashback with ntd",)),
            ),
            Claim(
                "with not-true distillation it is about as good as FedNTD (within 3 points)",
                lambda v: 0.03 - abs(v["flashback with ntd"] - v["fedntd"]),
            ),
        ),
        FEW,
        seeds=1,
    ),
    Recipe(
        "flashback-fig16",
        FLASHBACK,
        (Variant("flashback", OURS), Variant("flashback with ntd", NOT_TRUE), Variant("fedntd", FEDNTD)),
        {"": over_rounds("round_forgetting")},
        (
            Claim(
                "with not-true distillation a round forgets more than with Flashback's own loss",
                lambda v: v["flashback with ntd"] - v["flashback"],
            ),
            Claim(
                "with not-true distillation a round forgets more than with FedNTD",
                lambda v: v["flashback with ntd"] - v["fedntd"],
            ),
        ),
        FEW,
        seeds=1,
        draws="distribution",
        shares="flashback-fig11",
    ),
    Recipe(
        "flashback-fig12",
        FLASHBACK,
        tuple(
            Variant(f"public={size} {name}", merge(method, changes))
            for size, changes in PUBLIC.items()
            for name, method in {"flashback": OURS, "central": CENTRAL}.items()
        ),
        {"": last_rounds("accuracy")},
        (
            Claim("more public data help", lambda v: v["public=9000 flashback"] - v["public=450 flashback"]),
            Claim(
                "Flashback beats central training on public data of every size",
                least_gain("flashback", "central"),
            ),
        ),
        FEW,
        seeds=1,
    ),
    Recipe(
        "flashback-fig13",
        FLASHBACK,
        tuple(
            Variant(f"gamma={gamma}", {"method": {"name": "flashback", "gamma": gamma}}) for gamma in GAMMAS
        ),
        {"": height("accuracy"), "end": at_end("accuracy")},
        (
            Claim(
                "gamma 0.001 learns more slowly than 0.025 (mean accuracy over rounds)",
                lambda v: v["gamma=0.025"] - v["gamma=0.001"],
            ),
            Claim("gamma 1 ends below 0.025", lambda v: v["gamma=0.025 end"] - v["gamma=1.0 end"]),
        ),
        FEW,
        ("gamma=0.001", "gamma=0.025", "gamma=1.0"),
        seeds=1,
    ),
)

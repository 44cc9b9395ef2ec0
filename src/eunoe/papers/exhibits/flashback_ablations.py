"""What makes Flashback work: figures 6, 8 to 13, 15 and 16 of its paper, all on CIFAR-10."""

from eunoe.config.settings import merge
from eunoe.papers.claims import Claim
from eunoe.papers.comparisons import above, exceeds, highest, least_gain, lowest
from eunoe.papers.exhibit import Config, Exhibit, Variant
from eunoe.papers.exhibits.common import CENTRAL, FLASHBACK
from eunoe.papers.exhibits.flashback import SMALL, SMALL_WATCHED, flashback
from eunoe.papers.keys import Key, key
from eunoe.papers.measures import at_end, drop_from_best, height, last_rounds, over_rounds

OURS = flashback("cifar10")
FINE_TUNED: Config = {"method": {"name": "finetune"}}
CLIENTS_ONLY = merge(OURS, {"method": {"server_epochs": 0}})
SERVER_ONLY = merge(OURS, {"method": {"local": "ce"}})
NOT_TRUE = merge(OURS, {"method": {"local": "ntd"}})
FEDNTD: Config = {"method": {"name": "fedntd"}}
# Shares of the training data: 9000, 1125 and 450 samples after a tenth is put aside for validation.
PUBLIC: dict[Key, Config] = {
    key(public=9000): {"public": {"share": 0.2}},
    key(public=1125): {},
    key(public=450): {"public": {"share": 0.01}},
    # The paper does not say how unequal the classes are; here the largest is several times the smallest.
    key(public=1283, mix="unbalanced"): {"public": {"share": 0.0, "count": 1426, "alpha": 1.0}},
}
GAMMAS = (0.001, 0.01, 0.025, 0.1, 0.5, 1.0)


def method(name: str, measure: str = "") -> Key:
    """The line of a method, or what is read off its runs."""
    return key(method=name, measure=measure)


EXHIBITS = (
    Exhibit(
        "flashback-fig6",
        FLASHBACK,
        (Variant(method("fedavg+fine-tuning"), FINE_TUNED), Variant(method("flashback"), OURS)),
        {
            "": height("accuracy"),
            "drop": drop_from_best(),
            "rise": over_rounds("local_loss_rise", "loss", first=2),
        },
        (
            Claim(
                "Flashback is more accurate than fine-tuning",
                above(method("flashback"), method("fedavg+fine-tuning")),
            ),
            Claim(
                "fine-tuning falls further from its best than Flashback",
                above(method("fedavg+fine-tuning", "drop"), method("flashback", "drop")),
            ),
            Claim(
                "the loss rises more in local training with fine-tuning than with Flashback (right panel)",
                above(method("fedavg+fine-tuning", "rise"), method("flashback", "rise")),
                "of loss",
            ),
        ),
        # Long enough for what the paper calls a collapse.
        merge(SMALL_WATCHED, {"rounds": 40}),
    ),
    Exhibit(
        "flashback-fig8",
        merge(FLASHBACK, {"rounds": 30}),
        (Variant(method("fedavg"), {}),),
        {"": over_rounds("count_accuracy", "correlation")},
        (
            Claim(
                "accuracy on a class goes with a client's label count",
                exceeds(method("fedavg")),
                "correlation",
            ),
        ),
        merge(SMALL_WATCHED, {"rounds": 30}),
        seeds=1,
        draws="one-client",
    ),
    Exhibit(
        "flashback-fig9",
        merge(FLASHBACK, {"rounds": 30, "probes": [{"metric": "probability", "every": 1}]}),
        (Variant(method("fedavg"), {}),),
        {"": over_rounds("count_probability", "correlation")},
        (
            Claim(
                "the mean probability of a class goes with its label count",
                exceeds(method("fedavg")),
                "correlation",
            ),
        ),
        merge(SMALL, {"rounds": 30, "probes": [{"metric": "probability", "every": 1}]}),
        seeds=1,
        draws="probabilities",
    ),
    Exhibit(
        "flashback-fig10",
        FLASHBACK,
        (
            Variant(method("flashback"), OURS),
            Variant(method("clients only"), CLIENTS_ONLY),
            Variant(method("server only"), SERVER_ONLY),
        ),
        {"": height("accuracy"), "forgotten": over_rounds("round_forgetting")},
        (
            Claim(
                "either side alone falls short of both",
                highest(method("flashback"), (method("clients only"), method("server only"))),
            ),
            Claim(
                "a round forgets more with either side alone than with both",
                lowest(
                    method("flashback", "forgotten"),
                    (method("clients only", "forgotten"), method("server only", "forgotten")),
                ),
            ),
        ),
        SMALL_WATCHED,
        seeds=1,
    ),
    Exhibit(
        "flashback-fig15",
        FLASHBACK,
        (
            Variant(method("flashback"), OURS),
            Variant(method("clients only"), CLIENTS_ONLY),
            Variant(method("server only"), SERVER_ONLY),
        ),
        {"": over_rounds("local_loss_rise", "loss", first=2)},
        (
            Claim(
                "local training raises the loss less with distillation at the clients than without",
                above(method("server only"), method("clients only")),
                "of loss",
            ),
        ),
        SMALL_WATCHED,
        seeds=1,
        draws="saw-tooth",
        shares="flashback-fig10",
    ),
    Exhibit(
        "flashback-fig11",
        FLASHBACK,
        (
            Variant(method("flashback"), OURS),
            Variant(method("flashback with ntd"), NOT_TRUE),
            Variant(method("fedntd"), FEDNTD),
        ),
        {"": height("accuracy")},
        (
            Claim(
                "Flashback's own loss beats not-true distillation",
                highest(method("flashback"), (method("flashback with ntd"),)),
            ),
            Claim(
                "with not-true distillation it is about as good as FedNTD (within 3 points)",
                above(method("flashback with ntd"), method("fedntd")),
                within=0.03,
            ),
        ),
        SMALL_WATCHED,
        seeds=1,
    ),
    Exhibit(
        "flashback-fig16",
        FLASHBACK,
        (
            Variant(method("flashback"), OURS),
            Variant(method("flashback with ntd"), NOT_TRUE),
            Variant(method("fedntd"), FEDNTD),
        ),
        {"": over_rounds("round_forgetting")},
        (
            Claim(
                "with not-true distillation a round forgets more than with Flashback's own loss",
                above(method("flashback with ntd"), method("flashback")),
            ),
            Claim(
                "with not-true distillation a round forgets more than with FedNTD",
                above(method("flashback with ntd"), method("fedntd")),
            ),
        ),
        SMALL_WATCHED,
        seeds=1,
        draws="distribution",
        shares="flashback-fig11",
    ),
    Exhibit(
        "flashback-fig12",
        FLASHBACK,
        tuple(
            Variant(public.but(method=name), merge(options, changes))
            for public, changes in PUBLIC.items()
            for name, options in {"flashback": OURS, "central": CENTRAL}.items()
        ),
        {"": last_rounds("accuracy")},
        (
            Claim(
                "more public data help",
                above(key(public=9000, method="flashback"), key(public=450, method="flashback")),
            ),
            Claim(
                "Flashback beats central training on public data of every size",
                least_gain("flashback", "central"),
            ),
        ),
        SMALL_WATCHED,
        seeds=1,
    ),
    Exhibit(
        "flashback-fig13",
        FLASHBACK,
        tuple(
            Variant(key(gamma=gamma), {"method": {"name": "flashback", "gamma": gamma}}) for gamma in GAMMAS
        ),
        {"": height("accuracy"), "end": at_end("accuracy")},
        (
            Claim(
                "gamma 0.001 learns more slowly than 0.025 (mean accuracy over rounds)",
                above(key(gamma=0.025), key(gamma=0.001)),
            ),
            Claim(
                "gamma 1 ends below 0.025",
                above(key(gamma=0.025, measure="end"), key(gamma=1.0, measure="end")),
            ),
        ),
        SMALL_WATCHED,
        (key(gamma=0.001), key(gamma=0.025), key(gamma=1.0)),
        seeds=1,
    ),
)

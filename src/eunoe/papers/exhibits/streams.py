"""Data that change with time: what label drift and new classes take, and what helps.

The settings are ours. FlashbackCL (https://arxiv.org/abs/2606.03939) names decaying label counts and
class-balanced replay as parts of its method; only its abstract was at hand, so both run here as options
of Flashback and of FedAvg, and no claim of that paper is judged.
"""

from eunoe.config.settings import merge
from eunoe.papers.claims import Claim
from eunoe.papers.comparisons import above
from eunoe.papers.exhibit import Config, Exhibit, Variant
from eunoe.papers.exhibits.common import WSM
from eunoe.papers.keys import key
from eunoe.papers.measures import Measure, at_end, height, last_rounds

# Samples, image size and epochs at the server were cut to the time of a run. Local epochs, batches and the
# alpha of new classes were changed after FedAvg with WSM had stayed at chance on seed 0 (docs/streams.md).
COMMON: Config = {
    "rounds": 60,
    "data": {"name": "cifar10", "limit": 15_000, "test_limit": 5_000, "pool": 2},
    "partition": {"name": "dirichlet", "clients": 50, "alpha": 0.1},
    "split": {"validation": 0.1},
    "public": {"share": 0.025},
    "participation": 10,
    "model": {"name": "cnn", "width": 8},
    "training": {"epochs": 3, "batch_size": 20, "lr": 0.03, "momentum": 0.9, "weight_decay": 1e-5},
    "evaluation": {"every": 6, "last": 6},
    "probes": [],
    "method": {"name": "fedavg"},
    "loss": {"name": "ce"},
}
# A third of the samples, and as many rounds.
SMALL: Config = {"data": {"limit": 5_000, "test_limit": 2_000}}
FLASHBACK: Config = {"method": {"name": "flashback", "gamma": 0.025, "server_epochs": 5}}
DECAY: Config = {"method": {"decay": 0.95}}
REPLAY: Config = {"replay": {"memory": 40}}
SEEN: Config = {"training": {"label_counts": "seen"}}
ARMS: dict[str, Config] = {
    "fedavg+wsm": WSM,
    "fedavg+wsm+seen": merge(WSM, SEEN),
    "fedavg+wsm+replay": merge(WSM, REPLAY),
    "flashback": FLASHBACK,
    "flashback+decay": merge(FLASHBACK, DECAY),
    "flashback+decay+replay": merge(FLASHBACK, DECAY, REPLAY),
}
ALL_SO_FAR = "WSM with label counts of all data so far is above WSM with those of the present data"
# What each remedy is compared with.
REMEDIES = {
    ALL_SO_FAR: ("fedavg+wsm+seen", "fedavg+wsm"),
    "replay raises FedAvg with WSM": ("fedavg+wsm+replay", "fedavg+wsm"),
    "decaying counts raise Flashback": ("flashback+decay", "flashback"),
    "decaying counts and replay raise Flashback": ("flashback+decay+replay", "flashback"),
    "Flashback is above FedAvg with WSM": ("flashback", "fedavg+wsm"),
}


def stream(name: str, options: Config, measures: dict[str, Measure], shown: str, draws: str) -> Exhibit:
    """All arms under one stream; the claims are on the first measure, `shown` says which that is."""
    column = next(iter(measures))
    return Exhibit(
        f"stream-{name}",
        merge(COMMON, options),
        tuple(Variant(key(method=arm), changes) for arm, changes in ARMS.items()),
        measures,
        tuple(
            Claim(f"{sentence} ({shown})", above(*(key(method=arm, measure=column) for arm in arms)))
            for sentence, arms in REMEDIES.items()
        ),
        SMALL,
        draws=draws,
    )


# Windows of a phone's motion sensors, which each person recorded activity after activity; nothing is
# simulated. Neighboring windows overlap, so none are set aside for validation. The test set is a second
# recording of the same people.
PEOPLE: Config = {
    "rounds": 40,
    "data": {"name": "har"},
    "partition": {"name": "natural"},
    "split": {"validation": 0.0},
    "participation": 10,
    "model": {"name": "signal_cnn"},
    "training": {
        "epochs": 1,
        "steps": 10,
        "batch_size": 16,
        "lr": 0.05,
        "momentum": 0.9,
        "weight_decay": 0.0,
    },
    "stream": {"name": "recorded", "share": 0.2},
    "evaluation": {"every": 5, "last": 5},
    "probes": [],
    "method": {"name": "fedavg"},
    "loss": {"name": "ce"},
}
RECORDED: dict[str, Config] = {
    "fedavg": {},
    "fedavg+wsm": WSM,
    "fedavg+wsm+seen": merge(WSM, SEEN),
    "fedavg+replay": REPLAY,
    "fedavg+wsm+replay": merge(WSM, REPLAY),
    "fedavg+everything": {"stream": {"share": 1.0}},
}

EXHIBITS = (
    stream(
        "label-drift",
        {"stream": {"name": "label_drift"}},
        {"": height("accuracy"), "end": last_rounds("accuracy")},
        "mean accuracy over rounds",
        "accuracy",
    ),
    stream(
        "classes",
        # With fewer classes a client would have one alone in a phase, from which WSM learns nothing.
        {"stream": {"name": "classes", "phases": 5}, "partition": {"alpha": 1.0}},
        {
            "": last_rounds("accuracy"),
            "past": at_end("past"),
            "present": at_end("present"),
            "forgotten": at_end("phase_forgetting"),
        },
        "accuracy at the end",
        "phases",
    ),
    Exhibit(
        "stream-recorded",
        PEOPLE,
        tuple(Variant(key(method=arm), changes) for arm, changes in RECORDED.items()),
        {"": height("accuracy"), "end": last_rounds("accuracy")},
        tuple(
            Claim(f"{sentence} (mean accuracy over rounds)", above(*(key(method=arm) for arm in arms)))
            for sentence, arms in {
                "the order of recording takes accuracy from FedAvg": ("fedavg+everything", "fedavg"),
                "WSM raises FedAvg": ("fedavg+wsm", "fedavg"),
                ALL_SO_FAR: ("fedavg+wsm+seen", "fedavg+wsm"),
                "replay raises FedAvg": ("fedavg+replay", "fedavg"),
                "replay raises FedAvg with WSM": ("fedavg+wsm+replay", "fedavg+wsm"),
            }.items()
        ),
        {"rounds": 15, "evaluation": {"every": 1, "last": 2}},
    ),
)

"""The cost of runs: samples that pass forward and backward, and the estimated time on one core."""

from collections.abc import Iterable, Mapping
from typing import Any

from eunoe.config import registry
from eunoe.search.sweep import Planned

# Training samples, those of the public set and of the clients' validation parts included.
SIZES = {
    "cifar10": 50_000,
    "cifar100": 50_000,
    "cinic10": 180_000,
    "mnist": 60_000,
    "femnist": 695_000,
    "omniglot": 3_872,
    "har": 5_360,
}
WRITERS = {"femnist": 3_432, "omniglot": 128, "har": 30}

# Training samples per second of CPU time on one core, by model and width (AMD EPYC, torch 2.13).
RATES = {
    ("lenet", None): 6_100,
    ("cnn", None): 630,
    ("cnn", 8): 5_000,
    ("mnist_cnn", None): 3_500,
    ("signal_cnn", None): 4_000,
    ("resnet18", None): 20,
    ("resnet18", 8): 790,
}

# Images of half the size take a third of the time, with LeNet and with ResNet-18 of width 8 alike.
SPEED_UP = {1: 1.0, 2: 3.0}

# Work of a local step in passes of FedAvg: a forward pass alone is a third of one.
STEP_WORK = {"fedntd": 4 / 3, "flashback": 4 / 3, "moon": 5 / 3, "fedreg": 3.0, "fedcurv": 1.1}
# Training at the server by round, in samples: Flashback's usual epochs; FedDF's batches are in its config.
SERVER_SAMPLES = {"flashback": 15 * 1_125}


def samples(config: Mapping[str, Any]) -> float:
    """Samples that a run trains on, in units of one forward and backward pass."""
    data = config["data"]
    name = data.get("of", data["name"])
    size = data.get("limit") or SIZES[name]
    clients = config["partition"].get("clients") or WRITERS[name]
    share = config["participation"]
    participants = share if isinstance(share, int) else max(1, round(share * clients))
    kept = (1 - config.get("split", {}).get("validation", 0.0)) * (
        1 - config.get("public", {}).get("share", 0.0)
    )
    training, method = config["training"], config["method"]["name"]
    epochs = training["epochs"]
    passes = sum(epochs) / 2 if isinstance(epochs, list) else epochs
    one = size * kept / clients * passes
    if steps := training.get("steps"):
        one = min(one, steps * training["batch_size"])
    if not getattr(registry.find("method", method), "trains_clients", True):
        share = config["public"].get("share") or 0.04 if config["method"]["on"] == "public" else 1.0
        return float(config["rounds"] * size * share * passes)
    server = (
        config["method"].get("steps", 10_000) * 128 if method == "feddf" else SERVER_SAMPLES.get(method, 0)
    )
    a_round = participants * one * STEP_WORK.get(method, 1.0) + server
    return float(config["rounds"] * a_round)


def core_seconds(config: Mapping[str, Any]) -> float:
    """Estimated training time on one core, without evaluation and probes."""
    model = config["model"]
    rate = RATES.get((model["name"], model.get("width"))) or RATES[(model["name"], None)]
    return samples(config) / (rate * SPEED_UP[config["data"].get("pool", 1)])


def total(runs: Iterable[Planned]) -> tuple[float, float]:
    """Samples and core-seconds of all runs together."""
    runs = list(runs)
    return sum(samples(run.values) for run in runs), sum(core_seconds(run.values) for run in runs)

"""The cost of runs (samples trained on, estimated time on one core), and a description of their setting."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eunoe.config import registry
from eunoe.data.specs import SPECS
from eunoe.simulation.many import Planned
from eunoe_papers.experiment import PlannedRun

# Training samples, those of the public set and of the clients' validation parts included; FEMNIST's test part
# is a share of its rows.
SIZES = {name: spec.rows[0] for name, spec in SPECS.items()} | {"femnist": 695_000}
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


def count_samples(config: Mapping[str, Any]) -> float:
    """Count the samples that a run trains on, in units of one forward and backward pass."""
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
    by_client = size * kept / clients * passes
    if steps := training.get("steps"):
        by_client = min(by_client, steps * training["batch_size"])
    if not getattr(registry.find("method", method), "trains_clients", True):
        share = config["public"].get("share") or 0.04 if config["method"]["on"] == "public" else 1.0
        return float(config["rounds"] * size * share * passes)
    server = (
        config["method"].get("steps", 10_000) * 128 if method == "feddf" else SERVER_SAMPLES.get(method, 0)
    )
    a_round = participants * by_client * STEP_WORK.get(method, 1.0) + server
    return float(config["rounds"] * a_round)


def estimate_seconds(config: Mapping[str, Any]) -> float:
    """Estimate the training time on one core, without evaluation and probes."""
    model = config["model"]
    rate = RATES.get((model["name"], model.get("width"))) or RATES[(model["name"], None)]
    return count_samples(config) / (rate * SPEED_UP[config["data"].get("pool", 1)])


def sum_costs(runs: Iterable[Planned]) -> tuple[float, float]:
    """Return the samples and core-seconds of all runs together."""
    runs = list(runs)
    seconds = sum(estimate_seconds(run.values) for run in runs)
    return sum(count_samples(run.values) for run in runs), seconds


def describe_setting(planned: Sequence[PlannedRun]) -> str:
    """Describe the setting that all of these runs share."""
    settings = [_parts(run.values) for run in planned]
    shared = [part for part in settings[0] if all(part in other for other in settings)] if settings else []
    return ", ".join(shared)


def _parts(values: Mapping[str, Any]) -> list[str]:
    data, model, share = values["data"], values["model"], values["participation"]
    parts = []
    if clients := values["partition"].get("clients"):
        parts.append(f"{clients} clients")
    parts.append(f"{share} a round" if isinstance(share, int) else f"{share:.0%} a round")
    parts.append(f"{values['rounds']} rounds")
    if limit := data.get("limit"):
        parts.append(f"{limit:,} training images")
    if (pool := data.get("pool", 1)) > 1:
        parts.append(f"images of {({2: 'half', 4: 'a quarter of'})[pool]} the size")
    if groups := (values.get("public") or {}).get("groups"):
        parts.append(f"{groups} public groups")
    if width := model.get("width"):
        parts.append(f"{model['name']} of width {width}")
    if (last := values["evaluation"]["last"]) > 1:
        parts.append(f"last rounds: {last}")
    return parts

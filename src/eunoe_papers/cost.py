"""The cost of runs (samples trained on, estimated time on one core), and a description of their setting."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from eunoe.config import registry
from eunoe.data.builtin import SPECS
from eunoe.simulation.many import Planned
from eunoe_papers import read_table
from eunoe_papers.experiment import PlannedRun


def count_samples(config: Mapping[str, Any]) -> float:
    """Count the samples that a run trains on, in units of one forward and backward pass."""
    data, known = config["data"], read_table("networks")
    name = data.get("of", data["name"])
    size = data.get("limit") or known["sizes"].get(name) or SPECS[name].rows[0]
    clients = config["partition"].get("clients") or known["writers"][name]
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
    server = known["server_samples"].get(method, 0)
    if method == "feddf":
        server = config["method"].get("steps", 10_000) * 128
    a_round = participants * by_client * known["step_work"].get(method, 1.0) + server
    return float(config["rounds"] * a_round)


def estimate_seconds(config: Mapping[str, Any]) -> float:
    """Estimate the training time on one core, without evaluation and probes."""
    model, known = config["model"], read_table("networks")
    rates, width = known["rates"], model.get("width")
    rate = rates.get(f"{model['name']} of width {width}", rates[model["name"]])
    speed: float = rate * known["speed_up"][str(config["data"].get("pool", 1))]
    return count_samples(config) / speed


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

"""Run an experiment: estimate its cost, find missing data, execute pending runs, measure finished ones."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eunoe.config import registry
from eunoe.data.builtin import SPECS, path_of
from eunoe.errors import InputError
from eunoe.metrics.forgetting import per_class_accuracy, reweighted_accuracy
from eunoe.simulation.many import OnSweepRound, Planned, execute, is_done
from eunoe.simulation.run import Run
from eunoe.system.files import write_text
from eunoe_papers import read_table
from eunoe_papers.experiment import STAND_INS, Experiment, PlannedRun, Scale, data_sets
from eunoe_papers.results import Results, collect
from eunoe_papers.store import FoundRun, find_in_folders

if TYPE_CHECKING:
    from torch import Tensor


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


def measure_personal_gain(run: Run) -> dict[str, float]:
    """Measure the accuracy in the clients' label mix, with and without their class shares in the logits."""
    import torch

    from eunoe.losses.base import adjust_for_prior

    federation = run.simulation.federation
    labels = federation.data.test.y.numpy()
    model = run.model()
    with torch.no_grad():
        chunks = torch.split(torch.arange(len(labels)), 500)
        logits = torch.cat([model(federation.inputs("test", rows)) for rows in chunks])

    def accuracy(scores: "Tensor", counts: "Tensor") -> float:
        per_class = per_class_accuracy(scores.argmax(1).numpy(), labels, federation.classes)
        return float(reweighted_accuracy(per_class, counts[None])[0])

    counts = [federation.counts(client) for client in range(len(federation))]
    without = sum(accuracy(logits, count) for count in counts) / len(counts)
    shares = sum(accuracy(adjust_for_prior(logits, count), count) for count in counts) / len(counts)
    return {"personal_gain": 100 * (shares - without), "personal_without": without, "personal_with": shares}


def count_classes(run: Run) -> dict[str, float]:
    """Count the classes that a client has on average."""
    return {"classes_per_client": float((run.simulation.federation.all_counts() > 0).sum(1).mean())}


AFTER: dict[str, Callable[[Run], dict[str, float]]] = {
    "personal_gain": measure_personal_gain,
    "classes_per_client": count_classes,
}


@dataclass(frozen=True)
class Limits:
    """Limits on how far runs go for now; they can be continued later."""

    rounds: int | None = None
    hours: float | None = None

    def apply(self, planned: PlannedRun) -> PlannedRun:
        """Return a planned run within the limits."""
        values = {**planned.values, "stop": {**planned.values.get("stop", {}), "hours": self.hours}}
        values["rounds"] = min(values["rounds"], self.rounds or values["rounds"])
        return replace(planned, values=values)

    def estimate_seconds(self, planned: Iterable[PlannedRun]) -> float:
        """Estimate the training time on one core of runs within the limits."""
        longest = 3600 * self.hours if self.hours else float("inf")
        return sum(min(estimate_seconds(self.apply(run).values), longest) for run in planned)


def select_pending(planned: Sequence[PlannedRun], limits: Limits) -> list[PlannedRun]:
    """Return the pending runs; those with missing data are left out, unless all are."""
    return [run for run in select_ready(planned) if not is_done(limits.apply(run))]


def reproduce(
    experiment: Experiment,
    planned: Sequence[PlannedRun],
    limits: Limits,
    jobs: int = 1,
    on_round: OnSweepRound = lambda planned, record: None,
) -> None:
    """Execute the pending runs and compute the measures that need finished runs."""
    execute([limits.apply(run) for run in select_pending(planned, limits)], jobs, on_round, exact=True)
    if experiment.after:
        for run in planned:
            path = run.folder / "after.json"
            if not path.exists() and is_done(run) and Run(run.folder).finished:
                write_text(path, json.dumps(AFTER[experiment.after](Run(run.folder))) + "\n")


def collect_folders(experiment: Experiment, scale: Scale, out: Path) -> tuple[Results, list[FoundRun]]:
    """Collect the results of all runs of the experiment below a folder, and write a summary there."""
    runs = find_in_folders(experiment, scale, out)
    results = collect(experiment, scale, runs)
    path = out / experiment.name / scale / "summary.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(results.as_json(), indent=1, ensure_ascii=False) + "\n")
    return results, runs


def find_missing(planned: Iterable[Planned]) -> dict[str, Path]:
    """Return the missing data sets of these runs, with the files that would hold them."""
    paths = {name: path_of(name) for name in data_sets(planned) if name != "digits"}
    return {name: path for name, path in paths.items() if not path.exists()}


def select_ready(planned: Sequence[PlannedRun]) -> list[PlannedRun]:
    """Return the runs whose data are available; raise InputError if there are none."""
    absent: Mapping[str, Path] = find_missing(planned)
    ready = [run for run in planned if not set(data_sets([run])) & set(absent)]
    if not ready:
        files = ", ".join(str(path) for path in absent.values())
        hint = ", or use --stand-in to run on other data" if set(absent) & set(STAND_INS) else ""
        raise InputError(f"data set {', '.join(absent)} not found: add {files}{hint}")
    return ready

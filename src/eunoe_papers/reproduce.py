"""Run an experiment: find missing data, execute pending runs, collect results."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eunoe.data.builtin import path_of
from eunoe.errors import InputError
from eunoe.simulation.many import OnSweepRound, Planned, execute, is_done
from eunoe.simulation.run import Run
from eunoe.system.files import write_text
from eunoe_papers.after import AFTER
from eunoe_papers.cost import estimate_seconds
from eunoe_papers.experiment import STAND_INS, Experiment, PlannedRun, Scale, data_sets
from eunoe_papers.results import Results, collect
from eunoe_papers.store import FoundRun, find_in_folders


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

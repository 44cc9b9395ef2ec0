"""Running an exhibit: missing data, pending runs, and results."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eunoe.data.builtin import path_of
from eunoe.errors import InputError
from eunoe.papers.cost import core_seconds
from eunoe.papers.exhibit import STAND_INS, Exhibit, PlannedRun, Scale, data_sets
from eunoe.papers.found import FoundRun, in_folders
from eunoe.papers.results import Results, collect
from eunoe.search.sweep import OnSweepRound, Planned, execute, is_done
from eunoe.simulation.run import Run


@dataclass(frozen=True)
class Limits:
    """Limits on how far runs go for now; they can be continued later."""

    rounds: int | None = None
    hours: float | None = None

    def of(self, planned: PlannedRun) -> PlannedRun:
        """A planned run within the limits."""
        values = {**planned.values, "stop": {**planned.values.get("stop", {}), "hours": self.hours}}
        values["rounds"] = min(values["rounds"], self.rounds or values["rounds"])
        return replace(planned, values=values)

    def seconds(self, planned: Iterable[PlannedRun]) -> float:
        """Estimated training time on one core for runs within the limits."""
        longest = 3600 * self.hours if self.hours else float("inf")
        return sum(min(core_seconds(self.of(run).values), longest) for run in planned)


def to_run(planned: Sequence[PlannedRun], limits: Limits) -> list[PlannedRun]:
    """The pending runs; those with missing data are left out, unless all are."""
    return [run for run in ready(planned) if not is_done(limits.of(run))]


def reproduce(
    exhibit: Exhibit,
    planned: Sequence[PlannedRun],
    limits: Limits,
    jobs: int = 1,
    on_round: OnSweepRound = lambda planned, record: None,
) -> None:
    """Execute the pending runs and compute the measures that need finished runs."""
    execute([limits.of(run) for run in to_run(planned, limits)], jobs, on_round)
    if exhibit.after is not None:
        for run in planned:
            path = run.folder / "after.json"
            if not path.exists() and is_done(run) and Run(run.folder).finished:
                path.write_text(json.dumps(exhibit.after(Run(run.folder))) + "\n", "utf-8")


def results_in_folders(exhibit: Exhibit, scale: Scale, out: Path) -> tuple[Results, list[FoundRun]]:
    """The results of all runs of the exhibit below a folder, written there as a summary."""
    found = in_folders(exhibit, scale, out)
    results = collect(exhibit, scale, found)
    path = out / exhibit.name / scale / "summary.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(results.as_json(), indent=1, ensure_ascii=False) + "\n", "utf-8")
    return results, found


def missing(planned: Iterable[Planned]) -> dict[str, Path]:
    """The missing data sets of these runs, with the files that would hold them."""
    paths = {name: path_of(name) for name in data_sets(planned) if name != "digits"}
    return {name: path for name, path in paths.items() if not path.exists()}


def ready(planned: Sequence[PlannedRun]) -> list[PlannedRun]:
    """The runs whose data are available; if there are none, an error says what would help."""
    absent: Mapping[str, Path] = missing(planned)
    found = [run for run in planned if not set(data_sets([run])) & set(absent)]
    if not found:
        files = ", ".join(str(path) for path in absent.values())
        hint = "; --stand-in runs it on other data" if set(absent) & set(STAND_INS) else ""
        raise InputError(f"{', '.join(absent)} is needed and not here: put {files} there{hint}")
    return found

"""Running a recipe: what is missing, the runs that are to do, and what those that are done gave."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eunoe.data.named import path_of
from eunoe.errors import InputError
from eunoe.recipes.base import STAND_INS, Recipe, Run, Scale, data_sets
from eunoe.recipes.measures import Outcome
from eunoe.recipes.outcomes import outcome_of
from eunoe.recipes.results import Results, collect, folder_of, stand_in, write_summary
from eunoe.report.records import RunRecords, read_lines
from eunoe.runs import Run as FinishedRun
from eunoe.sweep import OnRound, Planned, execute


@dataclass(frozen=True)
class Choice:
    """Which runs of a recipe are meant, where they are kept, and how far they go for now."""

    recipe: Recipe
    scale: Scale
    out: Path
    seeds: Sequence[int] | None = None
    stand_in: bool = False
    only: str = ""
    rounds: int | None = None
    hours: float | None = None

    def runs(self) -> list[Run]:
        """The runs, whether their data are here or not."""
        return self.recipe.runs(self.scale, self.seeds, self.stand_in, self.only)

    def folder(self, run: Run) -> Path:
        """Where a run is kept."""
        return folder_of(self.out, self.recipe, self.scale, run)

    def planned(self, run: Run) -> Planned:
        """A run as a sweep takes it; by fewer rounds or by hours it ends early, to be gone on with."""
        marks = [mark for mark in (stand_in(run), "small" if self.scale == "small" else "") if mark]
        values = {"name": f"{run.label} ({', '.join(marks)})" if marks else run.label, **run.config}
        values["rounds"] = min(values["rounds"], self.rounds or values["rounds"])
        values["stop"] = {**values.get("stop", {}), "hours": self.hours}
        return Planned(run.label, values, self.folder(run))


def reproduce(
    choice: Choice, jobs: int = 1, on_round: OnRound = lambda planned, record: None
) -> tuple[Results, dict[str, Path]]:
    """Run what is not done and give the results, and the data sets that are not here."""
    runs = choice.runs()
    absent = missing(runs)
    runs = ready(runs, absent, choice.recipe.name)
    execute([choice.planned(run) for run in runs], jobs, on_round)
    outcomes = [(run, outcome) for run in runs if (outcome := read(choice, run)) is not None]
    results = collect(choice.recipe, choice.scale, outcomes)
    write_summary(choice.out / choice.recipe.name / choice.scale, results, {"missing": sorted(absent)})
    return results, absent


def missing(runs: Iterable[Run]) -> dict[str, Path]:
    """The data sets of these runs that are not here, with the files that they would be in."""
    paths = {name: path_of(name) for name in data_sets(runs) if name != "digits"}
    return {name: path for name, path in paths.items() if not path.exists()}


def ready(runs: Sequence[Run], absent: dict[str, Path], name: str) -> list[Run]:
    """The runs whose data are here; none at all is an error that says what would help."""
    found = [run for run in runs if not set(data_sets([run])) & set(absent)]
    if not found:
        files = ", ".join(str(path) for path in absent.values())
        hint = "; --stand-in runs it on other data" if set(absent) & set(STAND_INS) else ""
        raise InputError(f"{name} needs {', '.join(absent)}, which is not here: put {files} there{hint}")
    return found


def read(choice: Choice, run: Run) -> Outcome | None:
    """What a run has recorded so far; None if it has not begun."""
    folder = choice.folder(run)
    if not (folder / "status.json").exists():
        return None
    done = FinishedRun(folder)
    if done.status["state"] == "failed":
        return Outcome(run.config, {}, failed=True)
    if not done.records:
        return None
    records = RunRecords(run.label, done.records, read_lines(folder / "probes.jsonl"))
    outcome = outcome_of(records, done.values)
    if choice.recipe.after is None or not done.finished:
        return outcome
    last = int(done.records[-1]["round"])
    further = {name: {last: value} for name, value in _after(choice.recipe, done).items()}
    return Outcome(outcome.config, {**outcome.series, **further})


def _after(recipe: Recipe, done: FinishedRun) -> dict[str, float]:
    """Quantities measured on a finished run, kept in its folder so that its checkpoint may go."""
    assert recipe.after is not None
    path = done.folder / "after.json"
    if not path.exists():
        path.write_text(json.dumps(recipe.after(done)) + "\n", "utf-8")
    values: dict[str, float] = json.loads(path.read_text("utf-8"))
    return values


def progress(choice: Choice) -> dict[str, int]:
    """How many runs there are, and how many of them have begun and ended."""
    runs = choice.runs()
    paths = [choice.folder(run) / "status.json" for run in runs]
    states = [json.loads(path.read_text("utf-8"))["state"] for path in paths if path.exists()]
    ended = sum(state in ("finished", "failed") for state in states)
    return {"runs": len(runs), "begun": len(states), "ended": ended}

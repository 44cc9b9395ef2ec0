"""Running a recipe: what is missing, the runs that are to do, and what those that are done gave.

Where only the records of runs are kept, as in a clone of this project, runs count as they are: what they gave
can be shown again, but one that stopped early cannot go on without its checkpoint.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from eunoe.config.schema import make_config
from eunoe.data.builtin import path_of
from eunoe.errors import InputError
from eunoe.papers.base import STAND_INS, Recipe, Run, Scale, data_sets
from eunoe.papers.measures import Outcome
from eunoe.papers.outcomes import outcome_of
from eunoe.papers.results import Results, collect, folder_of, stand_in, write_summary
from eunoe.records.reader import RunRecords
from eunoe.runs.folder import checkpoints
from eunoe.runs.resuming import check_config
from eunoe.runs.run import Run as FinishedRun
from eunoe.runs.sweep import OnRound, Planned, done, execute
from eunoe.system.files import read_lines


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
        return Planned(values["name"], values, self.folder(run))

    def begun(self) -> list[Run]:
        """All runs of the recipe that there are at this scale, whichever are meant.

        Those on other data are told where there are none on the paper's.
        """
        shared = self.out / (self.recipe.shares or self.recipe.name) / self.scale
        seeds = sorted({int(path.name[5:]) for path in shared.glob("*/seed-*") if path.name[5:].isdigit()})
        real, other = (
            [
                run
                for run in self.recipe.runs(self.scale, seeds, stood)
                if (self.folder(run) / "status.json").exists()
            ]
            for stood in (False, True)
        )
        known = {run.label for run in real}
        return real + [run for run in other if run.label not in known]


def reproduce(
    choice: Choice, jobs: int = 1, on_round: OnRound = lambda planned, record: None
) -> tuple[Results, dict[str, Path]]:
    """Run what is not done; give the results of all that was ever run, and the data that are not here."""
    runs = choice.runs()
    absent = missing(runs)
    stuck = cannot_go_on(choice)
    planned = [choice.planned(run) for run in ready(runs, absent, choice.recipe.name)]
    execute([one for one in planned if one.folder not in stuck], jobs, on_round)
    return report(choice), absent


def report(choice: Choice) -> Results:
    """What all runs of the recipe gave so far, kept as its summary; nothing is run."""
    results = results_of(choice)
    write_summary(choice.out, results)
    return results


def results_of(choice: Choice) -> Results:
    """What all runs of the recipe gave so far."""
    runs = choice.begun()
    for run in runs:
        check_config(choice.folder(run), make_config(choice.planned(run).values))
    outcomes = [(run, outcome) for run in runs if (outcome := read(choice, run)) is not None]
    if not outcomes:
        raise InputError(
            f"nothing of {choice.recipe.name} has been run at {choice.scale} scale in {choice.out}; "
            "leave out --report to run it"
        )
    return collect(choice.recipe, choice.scale, outcomes)


def cannot_go_on(choice: Choice) -> list[Path]:
    """The folders of runs that are not done but have no checkpoint any more."""
    planned = [choice.planned(run) for run in choice.runs()]
    return [one.folder for one in planned if _without_checkpoint(one.folder) and not done(one)]


def _without_checkpoint(folder: Path) -> bool:
    # A round is in the status only once there has been a checkpoint of it.
    path = folder / "status.json"
    return path.exists() and json.loads(path.read_text("utf-8"))["round"] > 0 and not checkpoints(folder)


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
    finished = FinishedRun(folder)
    if finished.status["state"] == "diverged":
        return Outcome(run.config, {}, diverged=True)
    if not finished.records:
        return None
    records = RunRecords(run.label, finished.records, read_lines(folder / "probes.jsonl"))
    outcome = outcome_of(records, run.config)
    if choice.recipe.after is None or not finished.finished:
        return outcome
    last = int(finished.records[-1]["round"])
    further = {name: {last: value} for name, value in _after(choice.recipe, finished).items()}
    return Outcome(outcome.config, {**outcome.series, **further})


def _after(recipe: Recipe, run: FinishedRun) -> dict[str, float]:
    """Quantities measured on a finished run, kept in its folder so that its checkpoint may go."""
    assert recipe.after is not None
    path = run.folder / "after.json"
    if not path.exists():
        if _without_checkpoint(run.folder):
            return {}
        path.write_text(json.dumps(recipe.after(run)) + "\n", "utf-8")
    values: dict[str, float] = json.loads(path.read_text("utf-8"))
    return values


def progress(choice: Choice) -> dict[str, int]:
    """How many runs there are, how many of them have begun, and how many of those got to their end."""
    runs, begun = choice.runs(), choice.begun()
    ended = sum(done(choice.planned(run)) for run in begun)
    return {"runs": max(len(runs), len(begun)), "begun": len(begun), "ended": ended}

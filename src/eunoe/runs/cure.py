"""The cure of a run: a remedy that is found on validation data and judged on fresh seeds.

1. The remedies that fit the run (`remedies`) are searched by successive halving on validation accuracy, on
   seeds that are used for nothing else, planned for half of the budget.
2. The best of them and the run as it is run in full on fresh seeds. The gain is the mean of the differences
   by seed; it is a cure if the 95% interval on validation data is above zero. Otherwise the run stays as it
   is.
3. The test results of these runs are read once, after that.

Everything is kept in a folder, and the same call goes on with what was cut off.
"""

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from eunoe.config.merging import merge
from eunoe.config.paths import placed
from eunoe.config.schema import Config, make_config
from eunoe.data import statistics as label_statistics
from eunoe.engines.base import cores
from eunoe.errors import InputError
from eunoe.records.reader import RunRecords, read_run, read_status
from eunoe.runs import diagnosis
from eunoe.runs.assembly import UserObjects, assemble
from eunoe.runs.budget import Clock, read_budget
from eunoe.runs.cure_plan import CurePlan, make_plan, measured
from eunoe.runs.halving import (
    Halving,
    Trial,
    Watching,
    check_validation,
    rungs_of,
    search_values,
)
from eunoe.runs.journal import Journal
from eunoe.runs.progress import StageBars, interactive
from eunoe.runs.remedies import Candidate, candidates
from eunoe.runs.run import Run
from eunoe.runs.sweep import execute
from eunoe.runs.verdict import Cure, judged, nothing_found, trials_of
from eunoe.system.files import read_lines

SEARCH_SEEDS, FRESH_SEEDS = 1000, 2000


def cure(
    run: Run | Path | str,
    *,
    budget: str | float = "15m",
    seeds: int = 5,
    jobs: int | None = None,
    out: Path | str | None = None,
    progress: bool | None = None,
) -> Cure:
    """Look for a change of a run's configuration that makes its model better, and say by how much.

    The budget is wall-clock time for all of it, in seconds or as text such as "15m"; `seeds` is the number
    of fresh seeds, at least 5. `jobs` runs train at a time, by default one per core. The results are in
    `out`, by default a folder beside the run's. `progress` shows a bar; by default where it can move.
    """
    console = Console()
    if interactive(console) if progress is None else progress:
        with StageBars(console) as bars:
            return find_cure(run, budget, seeds, jobs, out, Watching(bars.stage, bars.count))
    return find_cure(run, budget, seeds, jobs, out, Watching())


def find_cure(
    run: Run | Path | str,
    budget: str | float,
    seeds: int,
    jobs: int | None,
    out: Path | str | None,
    watching: Watching,
) -> Cure:
    """The same, with somebody who is told how it goes."""
    began = time.monotonic()
    run = run if isinstance(run, Run) else Run(run)
    if seeds < 5:
        raise InputError(f"a cure is judged on at least 5 fresh seeds, not {seeds}")
    given, folder, seconds = run._objects, run.folder, read_budget(budget)
    if (folder / "flower.json").exists():
        raise InputError(
            f"{folder} is the run of a Flower federation, whose data are not here to try remedies on"
        )
    records = read_run(folder)
    place = Path(out) if out is not None else folder.resolve().with_name(f"{folder.resolve().name}-cure")
    values, config = _base(records.checked_config)
    simulation, _ = assemble(config, given)
    check_validation(simulation.federation)
    start = time.monotonic() - began
    # Its federation serves to check what fits; each seed has one of its own, unless it was handed over.
    at_hand = UserObjects(**{**vars(given), "federation": simulation.federation})
    found = [
        Candidate(one.label, one.treatment, one.values, _kept(one, given))
        for one in candidates(values, config, at_hand, labels_differ(records))
    ]
    jobs = jobs or (1 if config.engine.name == "ray" else cores())
    journal, plan = _planned(place / "journal.jsonl", records, found, seconds, seeds, jobs, start)
    chosen = found[: plan.candidates]
    trials = [
        Trial(number, one.label, search_values(one.values, config), one.given)
        for number, one in enumerate(chosen)
    ]
    for trial, one in zip(trials, chosen, strict=True):
        journal.trial(trial.number, trial.label, dict(one.treatment.changes))
    taken = records.checked_config.seed
    search_seeds = _seeds(SEARCH_SEEDS, plan.seeds, taken)
    clock = Clock(plan.seconds, journal.spent)
    halving = Halving(place / "search", search_seeds, rungs_of(config.rounds), jobs, journal, clock, watching)
    if "winner" not in journal.notes:
        halving.run(trials)
        best, reached = halving.best(trials)
        journal.note(winner=best.number, reached=reached)
    winner = chosen[journal.notes["winner"]]
    tried = trials_of(journal, halving.rungs)
    facts = diagnosis.diagnose(records).sentences[:2]
    if journal.notes["reached"] < config.rounds:
        facts = (*facts, f"The budget ended the search after round {journal.notes['reached']}.")
    if winner is chosen[0]:
        sentence = nothing_found(tried, winner.label, len(search_seeds))
        return Cure(None, (*facts, sentence), None, None, None, tried, None, (), place)
    fresh = _seeds(FRESH_SEEDS, seeds, taken)
    pair = [_confirming(one, number) for number, one in enumerate((chosen[0], winner))]
    planned = [trial.planned(place / "runs", seed, config.rounds) for trial in pair for seed in fresh]
    rounds = [config.rounds - int(read_status(one.folder).get("round", 0)) for one in planned]
    if any(rounds):
        watching.on_stage(f"{winner.label} against the run as it is, {seeds} fresh seeds", sum(rounds))
    runs = execute(planned, jobs, watching.on_round)
    return judged(place, records.checked_config, winner, runs[:seeds], runs[seeds:], tried, facts)


def labels_differ(run: RunRecords) -> bool:
    """Whether the clients' class mixes differ; so if it is not known."""
    counts = run.label_counts
    if counts is None or not counts.any():
        return True
    numbers = label_statistics.summarize(label_statistics.per_client(counts.astype(np.int64)))
    return bool(numbers.distance_mean >= diagnosis.ALIKE)


def _base(config: Config) -> tuple[dict[str, Any], Config]:
    """The run's configuration as it is repeated: one run to a core, to its last round, without probes."""
    values = config.model_dump(exclude_none=True)
    for key in ("stop", "track", "probes", "name"):
        values.pop(key, None)
    values["probes"] = []
    if config.engine.name == "process":
        # The same bits, and several runs at a time use the cores better.
        values["engine"] = {"name": "serial"}
    values = merge(values, {"evaluation": {"validation": True, "test": True}})
    return {**values, "name": config.title}, make_config({**values, "name": config.title})


def _kept(one: Candidate, given: UserObjects) -> Mapping[str, Any]:
    return {key: it for key, it in one.given.items() if getattr(given, key) is not None}


def _planned(
    path: Path,
    records: RunRecords,
    found: Sequence[Candidate],
    budget: float,
    fresh: int,
    jobs: int,
    start: float,
) -> tuple[Journal, CurePlan]:
    """The plan in the journal, or a new one by the run's own speed."""
    config = records.checked_config
    header: dict[str, Any] = {
        "run": placed(config.model_dump(mode="json")),
        "budget": budget,
        "fresh seeds": fresh,
        "candidates": [one.label for one in found],
    }
    lines = read_lines(path)
    if lines:
        plan = CurePlan(**lines[0]["plan"]["search"])
    else:
        costs = [one.treatment.cost for one in found]
        plan = make_plan(costs, config.rounds, measured(records, start), budget, fresh, jobs)
    return Journal(path, {**header, "search": vars(plan)}), plan


def _seeds(first: int, count: int, taken: int) -> list[int]:
    """Seeds of their own, without that of the run."""
    return [seed for seed in range(first, first + count + 1) if seed != taken][:count]


def _confirming(one: Candidate, number: int) -> Trial:
    return Trial(number, one.label, one.values, one.given)

"""The cure of a run: a remedy that is found on validation data and judged on fresh seeds.

1. A run that forgets little has nothing to cure.
2. The remedies that fit the run (`remedies`) are searched by successive halving on validation accuracy, on
   seeds that are used for nothing else, planned for half of the budget. Each is trained once and judged
   both by its newest model and by the mean of its models.
3. The best of them and the run as it is run in full on fresh seeds. The gain is the mean of the differences
   by seed; it is a cure if the 95% interval on validation data is above zero. Otherwise the run stays as it
   is.
4. The test results of these runs are read once, after that.

The budget is the time that a call takes at most. Everything is kept in a folder, and the same call goes on
with what was cut off.
"""

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console

from eunoe.config.merging import merge
from eunoe.config.paths import placed
from eunoe.config.schema import Config, make_config
from eunoe.data import statistics as label_statistics
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.records.reader import RunRecords, by_newest_model, read_run, read_status
from eunoe.runs import diagnosis
from eunoe.runs.assembly import UserObjects, assemble
from eunoe.runs.budget import Clock, TimeUp, read_budget
from eunoe.runs.cure_plan import CurePlan, SearchClock, Speed, Work, make_plan, measured
from eunoe.runs.halving import (
    Halving,
    Trial,
    Watching,
    check_validation,
    compared_rounds,
    rungs_of,
    search_values,
)
from eunoe.runs.hooks import evaluated
from eunoe.runs.journal import Journal
from eunoe.runs.loop import Record
from eunoe.runs.progress import StageBars, interactive
from eunoe.runs.remedies import Candidate, Forms, candidates, forms
from eunoe.runs.run import Run
from eunoe.runs.sweep import Planned, done, execute
from eunoe.runs.verdict import (
    Cure,
    judged,
    nothing_found,
    nothing_to_cure,
    trials_of,
    unfinished,
    without_search,
)
from eunoe.system.files import read_lines
from eunoe.system.machine import cores

SEARCH_SEEDS, FRESH_SEEDS = 1000, 2000
# The share of the budget after which no round begins: the rest is for tables and the report.
ENDING = 0.97


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
    seconds = read_budget(budget)
    whole = Clock(ENDING * seconds)
    run = run if isinstance(run, Run) else Run(run)
    if seeds < 5:
        raise InputError(f"a cure is judged on at least 5 fresh seeds, not {seeds}")
    given, folder = run._objects, run.folder
    if (folder / "flower.json").exists():
        raise InputError(
            f"{folder} is the run of a Flower federation, whose data are not here to try remedies on"
        )
    records = read_run(folder)
    place = Path(out) if out is not None else folder.resolve().with_name(f"{folder.resolve().name}-cure")
    values, config = _base(records.checked_config)
    facts = diagnosis.diagnose(records).sentences[:2]
    if diagnosis.forgets_little(records):
        return nothing_to_cure(place, facts)
    simulation, _ = assemble(config, given)
    if not simulation.method.merges:
        raise InputError(
            f"method {config.method.name!r} has no global model that could forget: cure another run"
        )
    check_validation(simulation.federation)
    start = whole.spent
    # Its federation serves to check what fits; each seed has one of its own, unless it was handed over.
    at_hand = UserObjects(**{**vars(given), "federation": simulation.federation})
    found = [
        Candidate(one.label, one.treatment, one.values, _kept(one, given))
        for one in candidates(values, config, at_hand, labels_differ(records), diagnosis.is_dead(records))
    ]
    jobs = jobs or (1 if config.engine.name == "ray" else cores())
    speed = measured(records, start, _validation_share(simulation.federation))
    work = Work(config.rounds, compared_rounds(config), _evaluations(config), seeds, jobs)
    journal, plan = _planned(place / "journal.jsonl", records.checked_config, found, work, speed, seconds)
    chosen = [forms(one, config) for one in found[: plan.candidates]]
    taken = records.checked_config.seed
    here = _Place(place, config, jobs, watching)
    search_seeds = _seeds(SEARCH_SEEDS, plan.seeds, taken)
    if search_seeds:
        winner = here.searched(chosen, search_seeds, journal, SearchClock(seconds, journal.spent, plan))
        if journal.notes["reached"] < config.rounds:
            facts = (*facts, f"The budget ended the search after round {journal.notes['reached']}.")
    else:
        winner = chosen[0].mean
        facts = (*facts, without_search(seconds, plan.needed))
    tried = trials_of(journal, chosen)
    as_it_is = chosen[0].newest if config.averaging is None else chosen[0].mean
    if winner is as_it_is:
        sentence = nothing_found(tried, winner.label, len(search_seeds))
        return Cure(None, (*facts, sentence), None, None, None, tried, None, (), place)
    before, after = here.repeated(as_it_is, winner, _seeds(FRESH_SEEDS, seeds, taken), whole)
    if len(after) < seeds:
        return unfinished(place, config, winner, before, after, seeds, tried, facts)
    return judged(place, records.checked_config, winner, before, after, tried, facts)


@dataclass(frozen=True)
class _Place:
    """Where a cure's runs are, what they have in common, and who is told how they go."""

    folder: Path
    config: Config
    jobs: int
    watching: Watching

    def searched(
        self, chosen: Sequence[Forms], seeds: Sequence[int], journal: Journal, clock: SearchClock
    ) -> Candidate:
        """The best form of the best trial; a search that was begun goes on."""
        trials = []
        for number, (newest, mean) in enumerate(chosen):
            # A run shows both forms, so it has the name of neither.
            label = newest.treatment.name if self.config.averaging is None else mean.treatment.name
            values = search_values(mean.values, self.config)
            trials.append(Trial(number, label or self.config.title, values, mean.given))
            journal.trial(number, trials[-1].label, dict(mean.treatment.changes))
        if "winner" not in journal.notes:

            def follow(planned: Planned, record: Record | None) -> None:
                self.watching.on_round(planned, record)
                if record is not None:
                    clock.tick()

            watching = Watching(self.watching.on_stage, follow)
            rungs, place = rungs_of(self.config.rounds), self.folder / "search"
            halving = Halving(
                place, seeds, rungs, self.jobs, journal, clock, watching, lambda result: result.best
            )
            halving.run(trials)
            best, reached = halving.best(trials)
            found = journal.results[best.number, reached]
            journal.note(
                winner=best.number, mean=bool(found.accuracy > found.newest_accuracy), reached=reached
            )
        both = chosen[int(journal.notes["winner"])]
        return both.mean if journal.notes["mean"] else both.newest

    def repeated(
        self, as_it_is: Candidate, winner: Candidate, seeds: Sequence[int], clock: Clock
    ) -> tuple[list[Run], list[Run]]:
        """The runs of both on fresh seeds; only those of the first seeds if the time is over."""
        rounds, place = self.config.rounds, self.folder / "runs"
        # Averaging changes no training: its runs have the numbers of those without it.
        alone = winner.treatment.changes.keys() == {"averaging"} and self.config.averaging is None
        alone = alone and (winner.treatment.lr, winner.treatment.epochs) == (1.0, 1.0)
        arms = [
            Trial(0, one.label, one.values, one.given) for one in ((winner,) if alone else (as_it_is, winner))
        ]
        # Seed by seed, so that what is there when the time is over are pairs.
        pairs = [[arm.planned(place, seed, rounds) for arm in arms] for seed in seeds]
        planned = [one for pair in pairs for one in pair]
        left = [rounds - int(read_status(one.folder).get("round", 0)) for one in planned]
        if any(left):
            title = f"{winner.label} against the run as it is, {len(seeds)} fresh seeds"
            self.watching.on_stage(title, sum(left))

        def follow(one: Planned, record: Record | None) -> None:
            self.watching.on_round(one, record)
            if clock.over:
                raise TimeUp

        with suppress(TimeUp):
            execute(planned, self.jobs, follow)
        ended = list(takewhile(lambda pair: all(map(done, pair)), pairs))
        before, after = ([Run(pair[arm].folder) for pair in ended] for arm in (0, -1))
        return [_without_averaging(one, as_it_is.label) for one in before] if alone else before, after


def _without_averaging(run: Run, title: str) -> Run:
    """A run that averages as the one that does not, by its numbers; its weights stay those of the mean."""
    other = copy.copy(run)
    other.read = by_newest_model(run.read, title)
    other.values = other.read.config
    return other


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
    # Evaluations cost as much as training a small cohort, and the result is that of the last rounds.
    every = max(config.evaluation.every, config.rounds // 4)
    evaluation = {"every": every, "last": max(1, config.evaluation.last), "validation": True, "test": True}
    values = merge(values, {"evaluation": evaluation})
    return {**values, "name": config.title}, make_config({**values, "name": config.title})


def _kept(one: Candidate, given: UserObjects) -> Mapping[str, Any]:
    return {key: it for key, it in one.given.items() if getattr(given, key) is not None}


def _planned(
    path: Path, config: Config, found: Sequence[Candidate], work: Work, speed: Speed, budget: float
) -> tuple[Journal, CurePlan]:
    """The plan in the journal, or a new one by the run's own speed."""
    header: dict[str, Any] = {
        "run": placed(config.model_dump(mode="json")),
        "budget": budget,
        "fresh seeds": work.fresh,
        "candidates": [one.label for one in found],
    }
    lines = read_lines(path)
    if lines:
        plan = CurePlan(**lines[0]["plan"]["search"])
    else:
        costs = [one.treatment.cost for one in found]
        plan = make_plan(costs, work, speed, budget, config.averaging is not None)
    return Journal(path, {**header, "search": vars(plan)}), plan


def _validation_share(federation: Federation) -> float:
    """The share of the clients' validation parts in all samples that a run is evaluated on."""
    validation = len(federation.pooled("validation")[0])
    return validation / (validation + len(federation.pooled("test")[0]) + len(federation.data.test))


def _evaluations(config: Config) -> int:
    return sum(evaluated(number + 1, config) for number in range(config.rounds))


def _seeds(first: int, count: int, taken: int) -> list[int]:
    """Seeds of their own, without that of the run."""
    return [seed for seed in range(first, first + count + 1) if seed != taken][:count]

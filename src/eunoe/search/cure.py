"""The cure of a run: a remedy that is found on validation data and judged on fresh seeds.

1. A run that forgets little has nothing to cure.
2. The remedies that fit the run (`remedies`) are searched by successive halving on validation accuracy (of
   several labels macro-F1, of numbers R²), on seeds that are used for nothing else, planned for half of the
   budget. Each is trained once and judged both by its newest model and by the mean of its models.
3. The best of them and the run as it is run in full on fresh seeds, five or, if time is left, up to twenty:
   how many is decided before the first of them runs. The gain is the mean of the differences
   by seed; it is a cure if the 95% interval on validation data is above zero. Otherwise the run stays as it
   is.
4. The test results of these runs are read once, after that.

The budget is the time that a call takes at most. Everything is kept in a folder, and the same call goes on
with what was cut off.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from eunoe.analysis.divergence import learned
from eunoe.analysis.summary import summarize
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import absolute_paths, merge
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.search import diagnosis
from eunoe.search.budget import Clock, read_budget
from eunoe.search.cure_plan import FRESH, CurePlan, SearchClock, Speed, Work, make_plan, measured
from eunoe.search.cure_runs import CureRuns
from eunoe.search.halving import (
    Watching,
    check_validation,
    compared_rounds,
)
from eunoe.search.journal import Journal
from eunoe.search.remedies import Candidate, candidates, forms
from eunoe.search.verdict import (
    NOT_PRIVATE,
    Cure,
    judged,
    nothing_found,
    nothing_to_cure,
    trials_of,
    unfinished,
    without_search,
    without_validation,
)
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.hooks import evaluated
from eunoe.simulation.progress import StageBars, interactive
from eunoe.simulation.run import Run
from eunoe.store.reader import read_run
from eunoe.system.files import read_lines
from eunoe.system.machine import cores

SEARCH_SEEDS, FRESH_SEEDS = 1000, 2000
# The share of the budget after which no round begins: the rest is for tables and the report.
ENDING = 0.97
# The share of each client's samples that is held out where the run has no validation data.
HELD_OUT = 0.1


def cure(
    run: Run | Path | str,
    *,
    budget: str | float = "15m",
    seeds: int | None = None,
    jobs: int | None = None,
    out: Path | str | None = None,
    progress: bool | None = None,
) -> Cure:
    """Look for a change of a run's configuration that makes its model better, and say by how much.

    The budget is wall-clock time for all of it, in seconds or as text such as "15m"; `seeds` is the number
    of fresh seeds, at least 5, by default as many as there is time for, up to 20. `jobs` runs train at a
    time, by default one per core. The results are in `out`, by default a folder beside the run's. `progress`
    shows a bar; by default where it can move.
    """
    console = Console()
    if interactive(console) if progress is None else progress:
        with StageBars(console) as bars:
            return find_cure(run, budget, seeds, jobs, out, Watching(bars.stage, bars.count))
    return find_cure(run, budget, seeds, jobs, out, Watching())


def find_cure(
    run: Run | Path | str,
    budget: str | float,
    seeds: int | None,
    jobs: int | None,
    out: Path | str | None,
    watching: Watching,
) -> Cure:
    """The same, with somebody who is told how it goes."""
    seconds = read_budget(budget)
    whole = Clock(ENDING * seconds)
    run = run if isinstance(run, Run) else Run(run)
    least = FRESH if seeds is None else seeds
    if least < FRESH:
        raise InputError(f"a cure is judged on at least {FRESH} fresh seeds, not {seeds}")
    given, folder = run._objects, run.folder
    if (folder / "flower.json").exists():
        raise InputError(
            f"{folder} is the run of a Flower federation, whose data are not here to try remedies on"
        )
    records = read_run(folder)
    place = Path(out) if out is not None else folder.resolve().with_name(f"{folder.resolve().name}-cure")
    values, config = _base(records.checked_config)
    facts = tuple(summarize(records).sentences()[:2])
    if diagnosis.forgets_little(records):
        return nothing_to_cure(place, facts, alike=diagnosis.per_round(records) >= diagnosis.LITTLE_PER_ROUND)
    began = whole.spent
    simulation, _ = assemble(config, given)
    start = whole.spent - began
    if not simulation.method.aggregates:
        raise InputError(
            f"method {config.method.name!r} has no global model that could forget: cure another run"
        )
    if not len(simulation.federation.pooled("validation")[0]) and given.federation is None:
        facts = (*facts, without_validation(HELD_OUT))
        values = merge(values, {"split": {"validation": HELD_OUT}})
        config = make_config(values)
        simulation, _ = assemble(config, given)
    check_validation(simulation.federation)
    if config.privacy is not None:
        facts = (*facts, NOT_PRIVATE)
    # Its federation serves to check what fits; each seed has one of its own, unless it was handed over.
    at_hand = UserObjects(**{**vars(given), "federation": simulation.federation})
    differ = not diagnosis.labels_alike(records)
    dead = diagnosis.is_dead(records) or not learned(records)
    found = [
        Candidate(one.label, one.treatment, one.values, _kept(one, given))
        for one in candidates(values, config, at_hand, differ, dead)
    ]
    jobs = jobs or (1 if config.engine.name == "ray" else cores())
    speed = measured(records, start, _validation_share(simulation.federation))
    work = Work(config.rounds, compared_rounds(config), _evaluations(config), least, jobs)
    journal, plan = _planned(
        place / "journal.jsonl", records.checked_config, found, work, speed, seconds, seeds
    )
    chosen = [forms(one, config) for one in found[: plan.candidates]]
    taken = records.checked_config.seed
    here = CureRuns(place, config, jobs, watching)
    search_seeds = _seeds(SEARCH_SEEDS, plan.seeds, taken)
    clock = SearchClock(seconds, journal.spent, plan)
    if search_seeds:
        winner = here.searched(chosen, search_seeds, journal, clock)
        if journal.notes["reached"] < config.rounds:
            facts = (*facts, f"The budget ended the search after round {journal.notes['reached']}.")
    else:
        winner = chosen[0].mean
        facts = (*facts, without_search(seconds, plan.needed))
    tried = trials_of(journal, chosen)
    as_it_is = chosen[0].newest if config.averaging is None else chosen[0].mean
    if winner is as_it_is:
        sentence = nothing_found(tried, winner.label, len(search_seeds), records.task.title)
        return Cure(None, (*facts, sentence), None, None, None, tried, None, (), place)
    if "fresh" not in journal.notes:
        # How many there are is decided before the first of them runs.
        arms, left = 1 if here.shows_both(winner) else 2, (ENDING * seconds - whole.spent) / clock.pace
        count = seeds or work.seeds_within(left, speed, arms, winner.treatment.cost)
        journal.note(fresh=count)
    fresh = int(journal.notes["fresh"])
    before, after = here.repeated(as_it_is, winner, _seeds(FRESH_SEEDS, fresh, taken), whole)
    if len(after) < least:
        return unfinished(place, winner, before, after, fresh, tried, facts)
    if len(after) < fresh:
        # The time was over, which has nothing to do with what came out: those that are there count.
        journal.note(fresh=len(after))
    return judged(place, records.checked_config, winner, before, after, tried, facts)


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
    path: Path,
    config: Config,
    found: Sequence[Candidate],
    work: Work,
    speed: Speed,
    budget: float,
    seeds: int | None,
) -> tuple[Journal, CurePlan]:
    """The plan in the journal, or a new one by the run's own speed."""
    header: dict[str, Any] = {
        "run": absolute_paths(config.model_dump(mode="json")),
        "budget": budget,
        "fresh seeds": seeds,
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

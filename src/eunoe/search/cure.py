"""The cure of a run: a remedy that is found on validation data and judged on fresh seeds.

1. A run that forgets little has nothing to cure.
2. The remedies that fit the run (search/remedies.py) are searched by successive halving on validation
   accuracy (multilabel: macro-F1; regression: R²), on seeds that are used for nothing else, planned for half
   of the budget. Each is trained once and judged by its newest model and by the average of its models.
3. The best remedy and the baseline run in full on fresh seeds: five or, if time is left, up to twenty. The
   number is fixed before the first of them runs. The gain is the mean difference by seed; the remedy is a
   cure if the 95% interval on validation data is above zero.
4. The test results of these runs are read once, after the verdict.

The budget limits the time of a call. All results are in a folder, and the same call continues a cure that was
cut off.
"""

import copy
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from rich.console import Console

from eunoe.analysis import diagnosis
from eunoe.analysis.divergence import learned
from eunoe.analysis.remedies import Remedy
from eunoe.analysis.summary import summarize
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import absolute_paths, merge
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.report.progress import StageBars, interactive
from eunoe.search.budget import Clock, TimeUp, parse_budget
from eunoe.search.cure_plan import FRESH, CostModel, CurePlan, SearchClock, make_plan, measure_speed
from eunoe.search.halving import (
    Callbacks,
    Halving,
    Trial,
    check_validation,
    compared_rounds,
    rungs_of,
    search_values,
)
from eunoe.search.journal import Journal, TrialResult, rank_results
from eunoe.search.remedies import Variants, applicable_remedies, averaging_variants, kept_objects
from eunoe.search.sweep import Planned, execute, is_done
from eunoe.search.verdict import (
    NOT_PRIVATE,
    Cure,
    judge,
    no_better_remedy,
    no_search,
    no_validation_data,
    nothing_to_cure,
    too_few_seeds,
)
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.hooks import Record, evaluated
from eunoe.simulation.run import Run
from eunoe.store.reader import read_run, read_status
from eunoe.store.run_records import without_averaging
from eunoe.system.files import read_lines
from eunoe.system.machine import cores

SEARCH_SEEDS, FRESH_SEEDS = 1000, 2000
# Share of the budget after which no round starts: the rest is for tables and the report.
ENDING = 0.97
# Share of each client's samples that is held out if the run has no validation data.
HELD_OUT = 0.1
# Averaging alone is preferred within a point of the best: it changes no training, so its gain varies least
# between seeds, and each of its runs shows the baseline too.
NEAR = 0.01


def cure(
    run: Run | Path | str,
    *,
    budget: str | float = "15m",
    seeds: int | None = None,
    jobs: int | None = None,
    out: Path | str | None = None,
    progress: bool | None = None,
) -> Cure:
    """Search for a change of a run's configuration that makes its model better, and measure the gain.

    The budget limits wall-clock time, in seconds or as text such as "15m". `seeds` is the number of fresh
    seeds, at least 5; by default as many as there is time for, up to 20. `jobs` runs train at a time, by
    default one per core. The results are in `out`, by default a folder beside the run's. `progress` shows
    a bar; by default where it can be redrawn.
    """
    console = Console()
    if interactive(console) if progress is None else progress:
        with StageBars(console) as bars:
            return find_cure(run, budget, seeds, jobs, out, Callbacks(bars.stage, bars.count))
    return find_cure(run, budget, seeds, jobs, out, Callbacks())


def find_cure(
    run: Run | Path | str,
    budget: str | float,
    seeds: int | None,
    jobs: int | None,
    out: Path | str | None,
    callbacks: Callbacks,
) -> Cure:
    """Like `cure`, with progress callbacks."""
    seconds = parse_budget(budget)
    clock = Clock(ENDING * seconds)
    run = run if isinstance(run, Run) else Run(run)
    least = FRESH if seeds is None else seeds
    if least < FRESH:
        raise InputError(f"a cure needs at least {FRESH} fresh seeds, not {seeds}")
    objects, source = run._objects, run.folder
    if (source / "flower.json").exists():
        raise InputError(f"{source} is the run of a Flower federation, whose data are not here")
    records = read_run(source)
    original = records.checked_config
    folder = Path(out) if out is not None else source.resolve().with_name(f"{source.resolve().name}-cure")
    facts = summarize(records).sentences()[:2]
    if diagnosis.forgets_little(records):
        alike = diagnosis.per_round(records) >= diagnosis.LITTLE_PER_ROUND
        return Cure(folder, (*facts, nothing_to_cure(alike)))

    values = _baseline_values(original)
    config = make_config(values)
    began = clock.spent
    simulation, _ = assemble(config, objects)
    start = clock.spent - began
    if not simulation.method.aggregates:
        raise InputError(f"method {config.method.name!r} has no global model: there is nothing to cure")
    if not len(simulation.federation.pooled("validation")[0]) and objects.federation is None:
        facts.append(no_validation_data(HELD_OUT))
        values = merge(values, {"split": {"validation": HELD_OUT}})
        config = make_config(values)
        simulation, _ = assemble(config, objects)
    federation = simulation.federation
    check_validation(federation)
    if config.privacy is not None:
        facts.append(NOT_PRIVATE)

    # What fits is checked on this federation; each seed has its own, unless the user passed one.
    remedies = applicable_remedies(
        values,
        config,
        UserObjects(**{**vars(objects), "federation": federation}),
        labels_differ=not diagnosis.labels_alike(records),
        dead=diagnosis.is_dead(records) or not learned(records),
    )
    jobs = jobs or (1 if config.engine.name == "ray" else cores())
    model = CostModel(
        measure_speed(records, start, _validation_share(federation)),
        config.rounds,
        compared_rounds(config),
        sum(evaluated(number + 1, config) for number in range(config.rounds)),
        least,
        jobs,
    )
    journal, plan = _open_journal(folder / "journal.jsonl", original, remedies, model, seconds, seeds)
    runs = CureRuns(folder, values, config, objects, jobs, callbacks)
    variants = [averaging_variants(remedy, config) for remedy in remedies[: plan.candidates]]
    search_seeds = _seeds(SEARCH_SEEDS, plan.seeds, original.seed)
    search_clock = SearchClock(seconds, journal.spent, plan)
    if search_seeds:
        winner = runs.search(variants, search_seeds, journal, search_clock)
        if journal.notes["reached"] < config.rounds:
            facts.append(f"The budget ended the search after round {journal.notes['reached']}.")
    else:
        winner = variants[0].averaged
        facts.append(no_search(seconds, plan.needed))
    search = _search_results(journal, variants, runs)
    baseline = variants[0].newest if config.averaging is None else variants[0].averaged
    if winner is baseline:
        label = runs.label(winner)
        sentence = no_better_remedy(search, label, len(search_seeds), records.task.title)
        return Cure(folder, (*facts, sentence), search)

    if "fresh" not in journal.notes:
        # Fixed before the first of them runs.
        arms = 1 if runs.is_averaging_alone(winner) else 2
        left = (ENDING * seconds - clock.spent) / search_clock.pace
        journal.note(fresh=seeds or model.seeds_within(left, arms, winner.cost))
    fresh = int(journal.notes["fresh"])
    before, after = runs.confirm(baseline, winner, _seeds(FRESH_SEEDS, fresh, original.seed), clock)
    if len(after) < least:
        return Cure(folder, (*facts, too_few_seeds(winner, before, after, fresh)), search)
    if len(after) < fresh:
        # Time ran out, which does not depend on the results: the seeds that ended count.
        journal.note(fresh=len(after))
    return judge(folder, original, winner, before, after, search, facts)


def _baseline_values(config: Config) -> dict[str, Any]:
    """Return the run's values for repeating it: one run per core, to its last round, without probes."""
    values = config.model_dump(exclude_none=True)
    for key in ("stop", "track"):
        values.pop(key, None)
    if config.engine.name == "process":
        # The same bits, and several runs at a time use the cores better.
        values["engine"] = {"name": "serial"}
    # Evaluations cost as much as training a small cohort, and only the last rounds count.
    every = max(config.evaluation.every, config.rounds // 4)
    evaluation = {"every": every, "last": max(1, config.evaluation.last), "validation": True, "test": True}
    return {**merge(values, {"evaluation": evaluation}), "probes": [], "name": config.title}


def _open_journal(
    path: Path, config: Config, remedies: Sequence[Remedy], model: CostModel, budget: float, seeds: int | None
) -> tuple[Journal, CurePlan]:
    """Open the journal with its plan; make the plan if there is none."""
    lines = read_lines(path)
    if lines:
        plan = CurePlan(**lines[0]["plan"]["search"])
    else:
        costs = [remedy.cost for remedy in remedies]
        plan = make_plan(costs, model, budget, config.averaging is not None)
    header: dict[str, Any] = {
        "run": absolute_paths(config.model_dump(mode="json")),
        "budget": budget,
        "fresh seeds": seeds,
        "candidates": [remedy.name or config.title for remedy in remedies],
        "search": vars(plan),
    }
    return Journal(path, header), plan


def _search_results(
    journal: Journal, variants: Sequence[Variants], runs: "CureRuns"
) -> tuple[TrialResult, ...]:
    """Return the results of the search, with a row for each variant."""
    results = []
    for number, (newest, averaged) in enumerate(variants):
        if last := journal.last_scores(number):
            rounds, scores = last
            newest_scores = scores.newest_accuracy, scores.newest_forgetting
            results.append(TrialResult(runs.label(newest), rounds, *newest_scores))
            results.append(TrialResult(runs.label(averaged), rounds, scores.accuracy, scores.forgetting))
    return tuple(rank_results(results))


def _validation_share(federation: Federation) -> float:
    """Return the share of the clients' validation parts in all evaluated samples."""
    validation = len(federation.pooled("validation")[0])
    return validation / (validation + len(federation.pooled("test")[0]) + len(federation.data.test))


def _seeds(first: int, count: int, excluded: int) -> list[int]:
    return [seed for seed in range(first, first + count + 1) if seed != excluded][:count]


@dataclass(frozen=True)
class CureRuns:
    """The runs of a cure in a folder; `values` and `config` are those of the baseline."""

    folder: Path
    values: Mapping[str, Any]
    config: Config
    objects: UserObjects
    jobs: int
    callbacks: Callbacks

    def label(self, remedy: Remedy) -> str:
        """Return the remedy's name; the baseline has the title of its config."""
        return remedy.name or self.config.title

    def search(
        self, variants: Sequence[Variants], seeds: Sequence[int], journal: Journal, clock: SearchClock
    ) -> Remedy:
        """Return the best variant of the best remedy, resuming a search in the journal."""
        trials = []
        for number, (newest, averaged) in enumerate(variants):
            # A run shows both variants and is labeled by the one with the run's own averaging.
            label = self.label(newest if self.config.averaging is None else averaged)
            trial = self._trial(averaged)
            values = search_values(trial.values, self.config)
            trials.append(Trial(number, label, values, trial.objects))
            journal.add_trial(number, label, averaged.changes)
        if "winner" not in journal.notes:

            def on_round(planned: Planned, record: Record | None) -> None:
                self.callbacks.on_round(planned, record)
                if record is not None:
                    clock.tick()

            halving = Halving(
                self.folder / "search",
                seeds,
                rungs_of(self.config.rounds),
                self.jobs,
                journal,
                clock,
                Callbacks(self.callbacks.on_stage, on_round),
                score=lambda scores: scores.best,
                keep=0,
            )
            halving.run(trials)
            best, reached = halving.best(trials)
            scores, baseline = journal.scores[best.number, reached], journal.scores.get((0, reached))
            number, mean = best.number, bool(scores.accuracy > scores.newest_accuracy)
            near = baseline and baseline.accuracy > max(baseline.newest_accuracy, scores.best - NEAR)
            if near and self.config.averaging is None:
                number, mean = 0, True
            journal.note(winner=number, mean=mean, reached=reached)
        winner = variants[int(journal.notes["winner"])]
        return winner.averaged if journal.notes["mean"] else winner.newest

    def is_averaging_alone(self, remedy: Remedy) -> bool:
        """Whether a remedy changes no training, so that its runs show the baseline too."""
        alone = remedy.changes.keys() == {"averaging"} and (remedy.lr, remedy.epochs) == (1.0, 1.0)
        return alone and self.config.averaging is None

    def confirm(
        self, baseline: Remedy, winner: Remedy, seeds: Sequence[int], clock: Clock
    ) -> tuple[list[Run], list[Run]]:
        """Run baseline and winner on fresh seeds; return the pairs that ended before the budget did."""
        rounds, folder = self.config.rounds, self.folder / "runs"
        alone = self.is_averaging_alone(winner)
        arms = [self._trial(remedy) for remedy in ((winner,) if alone else (baseline, winner))]
        # Seed by seed, so that complete pairs are there when the time is up.
        pairs = [[arm.plan_run(folder, seed, rounds) for arm in arms] for seed in seeds]
        runs = [planned for pair in pairs for planned in pair]
        left = [rounds - int(read_status(planned.folder).get("round", 0)) for planned in runs]
        if any(left):
            title = f"{winner.name} against the baseline, {len(seeds)} fresh seeds"
            self.callbacks.on_stage(title, sum(left))

        def on_round(planned: Planned, record: Record | None) -> None:
            self.callbacks.on_round(planned, record)
            if clock.over:
                raise TimeUp

        with suppress(TimeUp):
            execute(runs, self.jobs, on_round)
        ended = list(takewhile(lambda pair: all(map(is_done, pair)), pairs))
        before, after = ([Run(pair[arm].folder) for pair in ended] for arm in (0, -1))
        return [_without_averaging(run, self.label(baseline)) for run in before] if alone else before, after

    def _trial(self, remedy: Remedy) -> Trial:
        values = remedy.apply(self.values, self.config)
        assert values is not None
        return Trial(0, self.label(remedy), values, kept_objects(remedy, self.objects))


def _without_averaging(run: Run, title: str) -> Run:
    """Return a run with averaging as the one without: its numbers, but the weights of the averaged model."""
    other = copy.copy(run)
    other.read = without_averaging(run.read, title)
    other.values = other.read.config
    return other

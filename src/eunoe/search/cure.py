"""Cure a run: search for a remedy on validation data and measure its gain on fresh seeds (docs/cure.md).

Each remedy is trained once and scored by its newest model and by the average of its models. All results are
in a folder, and the same call continues a cure that was cut off.
"""

from dataclasses import replace
from pathlib import Path
from typing import Any

from eunoe.analysis import diagnosis
from eunoe.analysis.divergence import divergence, learned
from eunoe.analysis.summary import summarize
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import absolute_paths, merge
from eunoe.errors import InputError
from eunoe.metrics.evaluation import mask_judging_rows
from eunoe.search.cure_search import FRESH, SLACK, CureOptions, Search, SearchClock, estimate_seconds
from eunoe.search.halving import (
    Callbacks,
    check_validation,
    composed_privacy,
    format_budget,
    parse_budget,
    show_progress,
)
from eunoe.search.journal import Journal, read_journal
from eunoe.search.remedies import Applicability, CureRuns, averaging_variants, list_seeds, order_table
from eunoe.search.verdict import NOT_PRIVATE, Cure, judge, name_score, too_few_seeds
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.run import Run
from eunoe.store.reader import read_run
from eunoe.store.run_records import RunRecords
from eunoe.system.machine import cores

FRESH_SEEDS, MOST_FRESH = 2000, 10
# Share of the budget after which no round starts: the rest is for tables and the report.
ENDING = 0.94
# Share of each client's samples that is held out if the run has no validation data.
HELD_OUT = 0.1
# Evaluations of a run, about.
EVALUATIONS = 30


def cure(
    run: Run | Path | str,
    *,
    budget: str | float = "15m",
    trials: int | None = None,
    seeds: int | None = None,
    metric: str | None = None,
    retain_at_least: float | None = None,
    jobs: int | None = None,
    out: Path | str | None = None,
    progress: bool | None = None,
) -> Cure:
    """Search for a change of a run's configuration that makes its model better, and measure the gain.

    The budget limits wall-clock time, in seconds or as text such as "15m". `trials` is the number of
    remedies to try, `seeds` that of fresh seeds (at least 5); by default as many as there is time for.
    `metric` is what to improve, by default the accuracy. With `retain_at_least`, a share such as 0.95, only
    models count that retain so much of the start model's knowledge on each reference set. `jobs` runs train
    at a time, by default one per core. The results are in `out`, by default a folder beside the run's.
    `progress` shows a bar; by default where it can be redrawn.

    Example::

        cure = eunoe.cure("runs/first", budget="4m")
        cure.gain  # the gain over the baseline's best checkpoint, with its 95% interval
        eunoe.run(cure.config)
    """
    values = {
        "budget": parse_budget(budget),
        "trials": trials,
        "seeds": seeds,
        "metric": metric,
        "retain_at_least": retain_at_least,
        "jobs": jobs,
    }
    options = CureOptions.read(values, "cure")
    with show_progress(progress) as callbacks:
        result = find_cure(run, options, out, callbacks)
    return replace(result, sentences=(*result.sentences, *composed_privacy(result.folder)))


def find_cure(
    run: Run | Path | str, options: CureOptions, out: Path | str | None, callbacks: Callbacks
) -> Cure:
    """Like `cure`, with progress callbacks."""
    run = run if isinstance(run, Run) else Run(run)
    source = run.folder
    if run.read.flower or run.read.observed:
        raise InputError(f"{source} is the run of a Flower federation: its data are not on this machine")
    records = read_run(source)
    folder = Path(out) if out is not None else source.resolve().with_name(f"{source.resolve().name}-cure")
    summary = summarize(records)
    facts = summary.sentences()[: 3 if summary["trouble"] or summary["usefulness"] else 2]
    clock = SearchClock(ENDING * options.budget, estimate_seconds(records))
    runs, applicability = _prepare(records, run._objects, folder, options, callbacks, facts)
    table = applicability.select(
        order_table(
            diagnosis.clients_of(records), diagnosis.labels_alike(records), diagnosis.forgets_little(records)
        )
    )
    header: dict[str, Any] = {
        "run": absolute_paths(records.checked_config.model_dump(mode="json")),
        "trials": options.trials,
        "fresh seeds": options.seeds,
        "metric": options.metric,
    }
    score = name_score(runs.config) or records.task.title
    if options.retain_at_least is not None:
        share = header["retain at least"] = options.retain_at_least
        facts.append(f"A model that retains less than {share:.0%} counts as {score} {records.task.floor:g}.")
    path = folder / "journal.jsonl"
    if any("budget" in line.get("plan", {}) for line in read_journal(path)[:1]):
        raise InputError(
            f"{folder} holds a cure of version 0.1, which judged in another way: pass another --out"
        )
    journal = Journal(path, header)
    search = Search(runs, journal, clock, table, applicability, options)
    winner = search.run()
    results = search.results()
    if winner is None:
        # Averaging needs no search, unless the run averages already.
        winner = averaging_variants(table[0], runs.config)[0 if runs.config.averaging else 1]
        needed = format_budget(search.seconds_needed())
        facts.append(
            f"A budget of {format_budget(options.budget)} is too short for a search (about {needed} would "
            "allow one; pass another --out); only averaging was evaluated."
        )
    else:
        tried = "1 remedy was" if search.tried == 1 else f"{search.tried} remedies were"
        word = "seed" if len(search.seeds) == 1 else "seeds"
        facts.append(f"{tried} tried on {len(search.seeds)} search {word}.")
    if winner is search.baseline:
        best = f"None exceeded the validation {score} of its best checkpoint."
        return Cure(folder, (*facts, f"No remedy is better; keep {runs.label(winner)}. {best}"), results)

    clock.reserved = 0
    if "fresh" not in journal.notes:
        # Fixed before the first of them runs.
        fit = int(clock.left / (SLACK * clock.run_seconds * (1 if runs.is_averaging_alone(winner) else 2)))
        journal.note(fresh=options.seeds or min(max(FRESH, fit), MOST_FRESH))
    fresh = int(journal.notes["fresh"])
    before, after = runs.confirm(search.baseline, winner, list_seeds(FRESH_SEEDS, fresh, runs.seed), clock)
    if len(after) < min(FRESH, fresh):
        return Cure(folder, (*facts, too_few_seeds(runs.label(winner), before, after, fresh)), results)
    if len(after) < fresh:
        # Time ran out, which does not depend on the results: the seeds that ended count.
        journal.note(fresh=len(after))
    which = search.stronger_baseline()
    return judge(
        folder, records.checked_config, winner, before, after, which, search.alternatives(), results, facts
    )


def _prepare(
    records: RunRecords,
    objects: UserObjects,
    folder: Path,
    options: CureOptions,
    callbacks: Callbacks,
    facts: list[str],
) -> tuple[CureRuns, Applicability]:
    """Return the runs of a cure and what decides which remedies fit; add to the facts."""
    original = records.checked_config
    values = _baseline_values(original, options)
    simulation, _ = assemble(make_config(values), objects)
    if not simulation.method.aggregates:
        raise InputError(f"method {original.method.name!r} has no global model: there is nothing to cure")
    if not len(simulation.federation.pooled("validation")[0]) and objects.federation is None:
        facts.append(
            f"The run has no validation data: all runs of the cure hold out {HELD_OUT:.0%} of each client's "
            f"samples (split.validation={HELD_OUT:g}). The config that is written does not."
        )
        values = merge(values, {"split": {"validation": HELD_OUT}})
        simulation, _ = assemble(make_config(values), objects)
    federation = simulation.federation
    check_validation(federation)
    rows, _ = federation.pooled("validation")
    samples = int((~mask_judging_rows(rows)).sum())
    if not samples or samples == len(rows):
        raise InputError("a cure needs more validation samples: raise split.validation")
    config = make_config(values)
    if config.privacy is not None:
        facts.append(NOT_PRIVATE)
    jobs = options.jobs or (1 if config.engine.name == "ray" else cores())
    runs = CureRuns(folder, values, config, objects, jobs, callbacks, samples, original.seed)
    # What fits is checked on this federation; each seed has its own, unless the user passed one.
    checked = replace(objects, federation=federation)
    dead = bool(divergence(records)) or not learned(records)
    return runs, Applicability(values, config, checked, dead)


def _baseline_values(config: Config, options: CureOptions) -> dict[str, Any]:
    """Return the run's values for repeating it: one run per core, to its last round, without probes."""
    values = config.model_dump(exclude_none=True)
    for key in ("stop", "track"):
        values.pop(key, None)
    if config.engine.name in ("process", "serial"):
        # Runs train in lockstep where that is faster, or one per core.
        values.pop("engine")
    evaluation: dict[str, Any] = {
        "every": max(config.evaluation.every, config.rounds // EVALUATIONS, 1),
        "last": max(1, config.evaluation.last),
        "validation": True,
        "test": True,
        "judging": True,
        "personal": 0,
    }
    chosen = {"metric": options.metric, "retain_at_least": options.retain_at_least}
    evaluation |= {key: value for key, value in chosen.items() if value is not None}
    return {**merge(values, {"evaluation": evaluation}), "probes": [], "name": config.title}

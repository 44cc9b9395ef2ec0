"""The search for the best settings, by successive halving on validation accuracy.

Lists of values are tried as their product. Where a setting has a range, Optuna's TPE sampler proposes eight
trials at a time: trial i depends on the seed, on i and on the results of the trials before its eight.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from eunoe.config.schema import make_config
from eunoe.config.settings import absolute_paths
from eunoe.config.toml import to_toml
from eunoe.core.rng import generator
from eunoe.errors import InputError
from eunoe.search.budget import Clock
from eunoe.search.halving import Halving, Trial, Watching, check_validation, rungs_of, search_values
from eunoe.search.journal import Journal
from eunoe.search.sweep import plan
from eunoe.simulation.build import assemble
from eunoe.simulation.stored_config import resolved
from eunoe.simulation.streams import with_streams
from eunoe.system.files import write_text

BATCH = 8


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, evenly or evenly in their logarithm; whole ones if both ends are."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def rounded(self, value: float) -> float:
        """A value as it is tried: to four digits."""
        return int(value) if self.whole else min(max(float(f"{value:.4g}"), self.low), self.high)


Space = Mapping[str, Sequence[Any] | Range]


@dataclass(frozen=True)
class Tried:
    """A trial and how far it came."""

    label: str
    settings: Mapping[str, Any]
    rounds: int
    accuracy: float
    forgetting: float


@dataclass(frozen=True)
class Tuned:
    """The trials of a search, best first (those that came further before the others), and its end."""

    trials: Sequence[Tried]
    complete: bool
    config: Path

    @property
    def best(self) -> Tried:
        return self.trials[0]


def read_range(text: str) -> Range | None:
    """A range as in 0.1..0.9 or log:0.003..0.3; None if the text is none."""
    body = text.strip().removeprefix("log:")
    log, (low, dots, high) = body != text.strip(), body.partition("..")
    if not dots:
        if log:
            raise InputError(f"{text!r} is no range: write it as log:0.003..0.3")
        return None
    try:
        ends = [int(end) if end.strip().lstrip("+-").isdigit() else float(end) for end in (low, high)]
    except ValueError:
        raise InputError(f"{text!r} is no range of numbers: write it as log:0.003..0.3 or 0.1..0.9") from None
    if not (-float("inf") < ends[0] < ends[1] < float("inf")) or (log and ends[0] <= 0):
        above = " above 0" if log else ""
        raise InputError(f"{text!r}: a range goes from a number{above} to a larger one")
    return Range(ends[0], ends[1], log)


def tune(
    values: Mapping[str, Any],
    over: Space,
    out: Path,
    *,
    seeds: Sequence[int],
    budget: float | None = None,
    trials: int | None = None,
    jobs: int = 1,
    watching: Watching | None = None,
) -> Tuned:
    """Search the space; what was begun in the folder goes on. The best config is written to best.toml."""
    if not over:
        raise InputError(
            "there is nothing to search over: name a setting, as in --over training.lr=log:0.003..0.3"
        )
    ranges = {path: it for path, it in over.items() if isinstance(it, Range)}
    if ranges and find_spec("optuna") is None:
        raise InputError(
            f"{next(iter(ranges))} has a range, which needs Optuna: "
            "run pip install '.[tune]' in a clone of Eunoe"
        )
    if ranges and budget is None and trials is None:
        raise InputError("a search over ranges has no end of its own: give --budget, as in 30m, or --trials")
    if trials is not None and not ranges:
        raise InputError("lists of values are tried in full: leave --trials out, or give a range")
    config = with_streams(make_config(values))
    # In the rounds of the whole run, since trials begin with few of them.
    values = (
        {**values, "stream": [one.model_dump(mode="json") for one in config.stream]}
        if config.stream
        else values
    )
    check_validation(assemble(config)[0].federation)
    base, rungs = search_values(values, config), rungs_of(config.rounds)
    shown = {path: vars(it) if isinstance(it, Range) else list(it) for path, it in over.items()}
    header = {"config": absolute_paths(config.model_dump(mode="json")), "over": shown, "seeds": list(seeds)}
    batches = [] if ranges else [_product(over)]
    # What a setting cannot be is to show before the first trial runs.
    ends = {path: [it.low, it.high] if isinstance(it, Range) else it for path, it in over.items()}
    for settings in _product(ends):
        resolved(make_config(_trial(0, settings, base).values))
    journal = Journal(out / "journal.jsonl", header)
    halving = Halving(out, seeds, rungs, jobs, journal, Clock(budget, journal.spent), watching or Watching())
    tried: list[Trial] = []
    complete = True
    while complete and (batches or (ranges and (trials is None or len(tried) < trials))):
        if batches:
            batch = batches.pop()
        elif halving.clock.over and len(tried) not in journal.settings:
            complete = False
            break
        else:
            count = BATCH if trials is None else min(BATCH, trials - len(tried))
            batch = [
                _asked(journal, over, rungs, len(tried) + at, len(tried), config.seed) for at in range(count)
            ]
        new = [_trial(len(tried) + at, settings, base) for at, settings in enumerate(batch)]
        for trial, settings in zip(new, batch, strict=True):
            journal.trial(trial.number, trial.label, settings)
        tried += new
        complete = halving.run(new)
    ordered = _ordered(journal, rungs)
    if not ordered:
        raise InputError("the budget ended before a first result; give it more time")
    best = plan(values, {path: [value] for path, value in ordered[0].settings.items()}, seeds[:1], out)[0]
    kept = {**absolute_paths(best.config.model_dump(mode="json", exclude_none=True)), "seed": config.seed}
    write_text(out / "best.toml", to_toml(kept))
    return Tuned(ordered, complete, out / "best.toml")


def _product(over: Space) -> list[dict[str, Any]]:
    lists = [it for it in over.values() if not isinstance(it, Range)]
    return [dict(zip(over, combination, strict=True)) for combination in itertools.product(*lists)]


def _trial(number: int, settings: Mapping[str, Any], base: Mapping[str, Any]) -> Trial:
    planned = plan(base, {path: [value] for path, value in settings.items()}, [0], Path())[0]
    return Trial(number, planned.label, planned.values)


def _asked(
    journal: Journal, over: Space, rungs: Sequence[int], number: int, before: int, seed: int
) -> dict[str, Any]:
    """The settings of a trial: those in the journal, or what the sampler makes of the trials before."""
    if number in journal.settings:
        return journal.settings[number]
    import optuna
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    space: dict[str, BaseDistribution] = {}
    for path, it in over.items():
        if not isinstance(it, Range):
            # By position, since a value may be a section.
            space[path] = CategoricalDistribution(list(range(len(it))))
        elif it.whole:
            space[path] = IntDistribution(int(it.low), int(it.high), log=it.log)
        else:
            space[path] = FloatDistribution(it.low, it.high, log=it.log)
    # A sampler of its own for each trial: its state need not be kept.
    draws = int(generator(seed, "tune", number).integers(2**31))
    sampler = optuna.samplers.TPESampler(seed=draws, n_startup_trials=BATCH)
    study = optuna.create_study(sampler=sampler, direction="maximize")
    for earlier in range(before):
        study.add_trial(_finished(journal, over, rungs, earlier, space))
    asked = study.ask(fixed_distributions=space).params
    return {
        path: it.rounded(asked[path]) if isinstance(it, Range) else it[asked[path]]
        for path, it in over.items()
    }


def _finished(
    journal: Journal, over: Space, rungs: Sequence[int], number: int, space: Mapping[str, Any]
) -> Any:
    """A trial as Optuna knows it: one that was stopped early is pruned, and known by how far it came."""
    import optuna

    found = {
        rounds: journal.results[number, rounds].accuracy
        for rounds in rungs
        if (number, rounds) in journal.results
    }
    params = {
        path: it_value if isinstance(over[path], Range) else list(over[path]).index(it_value)  # type: ignore[arg-type]
        for path, it_value in journal.settings[number].items()
    }
    whole = rungs[-1] in found
    return optuna.trial.create_trial(
        params=params,
        distributions=dict(space),
        value=found[rungs[-1]] if whole else None,
        intermediate_values=found,
        state=optuna.trial.TrialState.COMPLETE if whole else optuna.trial.TrialState.PRUNED,
    )


def _ordered(journal: Journal, rungs: Sequence[int]) -> list[Tried]:
    """All trials with a result, by how far they came, then by accuracy, then by number."""
    found = []
    for number, settings in journal.settings.items():
        reached = [rounds for rounds in rungs if (number, rounds) in journal.results]
        if reached:
            last = journal.results[number, reached[-1]]
            found.append(Tried(journal.labels[number], settings, reached[-1], last.accuracy, last.forgetting))
    return sorted(found, key=lambda one: (-one.rounds, -one.accuracy))

"""Tuning: the search for the best settings by successive halving on validation accuracy.

Lists of values are tried as their product. If a setting has a range, Optuna's TPE sampler proposes batches of
eight trials: trial i depends on the seed, on i and on the scores of the trials before its batch.
"""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eunoe.config.schema import make_config
from eunoe.config.settings import absolute_paths, to_toml
from eunoe.core.rng import generator
from eunoe.errors import InputError, install_command
from eunoe.search.halving import Callbacks, Clock, Halving, Trial, check_validation, rungs_of, search_values
from eunoe.search.journal import Journal, TrialResult, rank_results
from eunoe.search.sweep import plan
from eunoe.simulation.build import assemble
from eunoe.simulation.resuming import resolved
from eunoe.simulation.streams import with_streams
from eunoe.system.files import write_text

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import FrozenTrial

BATCH = 8


@dataclass(frozen=True)
class Range:
    """Numbers from low to high, uniform or log-uniform; integers if both ends are."""

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        return isinstance(self.low, int) and isinstance(self.high, int)

    def round(self, value: float) -> float:
        """Round a sampled value to four digits, or to an integer."""
        return int(value) if self.whole else min(max(float(f"{value:.4g}"), self.low), self.high)

    def distribution(self) -> "BaseDistribution":
        """Return the range as Optuna's distribution."""
        from optuna.distributions import FloatDistribution, IntDistribution

        if self.whole:
            return IntDistribution(int(self.low), int(self.high), log=self.log)
        return FloatDistribution(self.low, self.high, log=self.log)


Space = Mapping[str, Sequence[Any] | Range]


@dataclass(frozen=True)
class Tuned:
    """The results of a search, best first, whether it ended before its budget, and the best config."""

    trials: Sequence[TrialResult]
    complete: bool
    config: Path

    @property
    def best(self) -> TrialResult:
        return self.trials[0]


def parse_range(text: str) -> Range | None:
    """Parse a range such as 0.1..0.9 or log:0.003..0.3; return None if the text is not a range."""
    body = text.strip().removeprefix("log:")
    log, (low, dots, high) = body != text.strip(), body.partition("..")
    if not dots:
        if log:
            raise InputError(f"invalid range {text!r}: write it as log:0.003..0.3")
        return None
    try:
        ends = [int(end) if end.strip().lstrip("+-").isdigit() else float(end) for end in (low, high)]
    except ValueError:
        raise InputError(f"invalid range {text!r}: write it as 0.1..0.9 or log:0.003..0.3") from None
    if not (-float("inf") < ends[0] < ends[1] < float("inf")) or (log and ends[0] <= 0):
        positive = "positive and " if log else ""
        raise InputError(f"invalid range {text!r}: the first number must be {positive}less than the second")
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
    exact: bool = False,
    callbacks: Callbacks | None = None,
) -> Tuned:
    """Search the space, resuming a search in the folder `out`, and write the best config to best.toml."""
    ranges = {path: it for path, it in over.items() if isinstance(it, Range)}
    _check_space(over, ranges, budget, trials)
    config = with_streams(make_config(values))
    if config.stream:
        # Stored in rounds of the whole run: the first stages have fewer.
        values = {**values, "stream": [stream.model_dump(mode="json") for stream in config.stream]}
    check_validation(assemble(config)[0].federation)
    base, rungs = search_values(values, config), rungs_of(config.rounds)
    # Invalid settings must fail before the first trial runs.
    ends = {path: [it.low, it.high] if isinstance(it, Range) else it for path, it in over.items()}
    for settings in _product(ends):
        resolved(make_config(_make_trial(0, settings, base).values))
    header = {
        "config": absolute_paths(config.model_dump(mode="json")),
        "over": {path: vars(it) if isinstance(it, Range) else list(it) for path, it in over.items()},
        "seeds": list(seeds),
    }
    journal = Journal(out / "journal.jsonl", header)
    clock = Clock(budget, journal.spent)
    halving = Halving(out, seeds, rungs, jobs, journal, clock, callbacks or Callbacks(), exact=exact)
    if ranges:
        complete, count = True, 0
        while complete and (trials is None or count < trials):
            if clock.over and count not in journal.settings:
                complete = False
                break
            batch = range(count, count + BATCH if trials is None else min(count + BATCH, trials))
            sampled = {number: _sample(journal, over, rungs, number, count, config.seed) for number in batch}
            complete = _run_batch(halving, sampled, base)
            count += len(batch)
    else:
        complete = _run_batch(halving, dict(enumerate(_product(over))), base)
    results = []
    for number, settings in journal.settings.items():
        if last := journal.last_scores(number):
            rounds, scores = last
            label = journal.labels[number]
            results.append(TrialResult(label, rounds, scores.accuracy, scores.forgetting, settings))
    if not results:
        raise InputError("the budget ended before the first result: pass a larger budget")
    results = rank_results(results)
    best = plan(values, {path: [value] for path, value in results[0].settings.items()}, seeds[:1], out)[0]
    config_values = absolute_paths(best.config.model_dump(mode="json", exclude_none=True))
    write_text(out / "best.toml", to_toml({**config_values, "seed": config.seed}))
    return Tuned(results, complete, out / "best.toml")


def _check_space(over: Space, ranges: Space, budget: float | None, trials: int | None) -> None:
    if not over:
        raise InputError("nothing to search over: pass a setting, as in --over training.lr=log:0.003..0.3")
    if ranges and find_spec("optuna") is None:
        raise InputError(
            f"{next(iter(ranges))} has a range, which needs Optuna: run {install_command('tune')}"
        )
    if ranges and budget is None and trials is None:
        raise InputError("a search over ranges needs --budget (such as 30m) or --trials")
    if trials is not None and not ranges:
        raise InputError("--trials applies to ranges only: lists of values are tried in full")


def _product(over: Space) -> list[dict[str, Any]]:
    lists = [it for it in over.values() if not isinstance(it, Range)]
    return [dict(zip(over, combination, strict=True)) for combination in itertools.product(*lists)]


def _make_trial(number: int, settings: Mapping[str, Any], base: Mapping[str, Any]) -> Trial:
    planned = plan(base, {path: [value] for path, value in settings.items()}, [0], Path())[0]
    return Trial(number, planned.label, planned.values)


def _run_batch(halving: Halving, batch: Mapping[int, Mapping[str, Any]], base: Mapping[str, Any]) -> bool:
    """Run trials, given by number and settings; return whether they ended before the budget did."""
    trials = [_make_trial(number, settings, base) for number, settings in batch.items()]
    for trial in trials:
        halving.journal.add_trial(trial.number, trial.label, batch[trial.number])
    return halving.run(trials)


def _sample(
    journal: Journal, over: Space, rungs: Sequence[int], number: int, before: int, seed: int
) -> dict[str, Any]:
    """Return the settings of a trial: those in the journal, or a sample given the trials before its batch."""
    if number in journal.settings:
        return journal.settings[number]
    import optuna
    from optuna.distributions import CategoricalDistribution

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    # Values of a list are given by position, since one may be a section.
    space: dict[str, BaseDistribution] = {
        path: it.distribution() if isinstance(it, Range) else CategoricalDistribution(list(range(len(it))))
        for path, it in over.items()
    }
    # Each trial has its own sampler, so that no sampler state must be stored.
    sampler_seed = int(generator(seed, "tune", number).integers(2**31))
    sampler = optuna.samplers.TPESampler(seed=sampler_seed, n_startup_trials=BATCH)
    study = optuna.create_study(sampler=sampler, direction="maximize")
    for earlier in range(before):
        study.add_trial(_to_optuna(journal, over, rungs, earlier, space))
    params = study.ask(fixed_distributions=space).params
    return {p: it.round(params[p]) if isinstance(it, Range) else it[params[p]] for p, it in over.items()}


def _to_optuna(
    journal: Journal, over: Space, rungs: Sequence[int], number: int, space: Mapping[str, "BaseDistribution"]
) -> "FrozenTrial":
    """Return a trial as Optuna's: pruned, with intermediate values, if it did not reach the last round."""
    import optuna

    scores = {at: journal.scores[number, at].accuracy for at in rungs if (number, at) in journal.scores}
    params = {
        path: value if isinstance(it := over[path], Range) else list(it).index(value)
        for path, value in journal.settings[number].items()
    }
    whole = rungs[-1] in scores
    return optuna.trial.create_trial(
        params=params,
        distributions=dict(space),
        value=scores[rungs[-1]] if whole else None,
        intermediate_values=scores,
        state=optuna.trial.TrialState.COMPLETE if whole else optuna.trial.TrialState.PRUNED,
    )

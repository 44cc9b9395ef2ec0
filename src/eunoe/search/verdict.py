"""The result of a cure: the gain on fresh seeds, the verdict, and its sentences."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from eunoe.analysis.diagnosis import per_round
from eunoe.analysis.remedies import Remedy
from eunoe.analysis.statistics import Interval, mean, mean_std, paired_interval
from eunoe.analysis.tables import Table
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import absolute_paths
from eunoe.config.toml import to_toml
from eunoe.search.budget import format_budget
from eunoe.search.journal import TrialResult
from eunoe.simulation.run import Run
from eunoe.system.files import write_text

NOT_PRIVATE = (
    "Each run of the cure trains on the same clients again, which the epsilon of a single run does not "
    "count: it holds for the cured model only if the cure was found on other clients."
)


@dataclass(frozen=True, repr=False)
class Cure:
    """The result of a cure: the remedy (None: keep the baseline), its gain, and the runs that show it."""

    folder: Path
    sentences: tuple[str, ...]
    search: tuple[TrialResult, ...] = ()
    label: str | None = None
    validation: Interval | None = None
    test: Interval | None = None
    table: Table | None = None
    config: Path | None = None
    runs: tuple[Run, ...] = ()

    def __repr__(self) -> str:
        return "\n".join([*([self.table.text()] if self.table else []), *self.sentences])


def judge(
    folder: Path,
    config: Config,
    winner: Remedy,
    before: Sequence[Run],
    after: Sequence[Run],
    search: tuple[TrialResult, ...],
    facts: Sequence[str],
) -> Cure:
    """Compare the winner with the baseline seed by seed; if it is better, write cure.toml.

    `config` is that of the run to cure, in which the winner's changes are made.
    """
    validation = _gain(before, after, "validation")
    words = f"{winner.name}: {validation.points()} on validation over {len(after)} fresh seeds"
    path = folder / "cure.toml" if validation.positive else None
    if path is not None:
        changed = winner.apply(config.model_dump(exclude_none=True), config)
        cured = make_config({**(changed or {}), "name": winner.name})
        write_text(path, to_toml(absolute_paths(cured.model_dump(mode="json", exclude_none=True))))
        words = f"{words}; {describe_forgetting(before, after)}."
    else:
        best = "The best of the search, " if search else ""
        words = f"No candidate is significantly better; keep {config.title}. {best}{words}."
    # The verdict stands; only now are the test results read.
    test = _gain(before, after, "test")
    tested = bool(np.isfinite(test.mean))
    return Cure(
        folder,
        (*facts, words, *([f"On the test set, read once: {test.points()}."] if tested else [])),
        search,
        label=None if path is None else winner.name,
        validation=validation,
        test=test if tested else None,
        table=_table([before, after]),
        config=path,
        runs=(*before, *after),
    )


def describe_gain(name: str, before: Sequence[Run], after: Sequence[Run]) -> str:
    """Describe in one sentence what runs gain over others on the same seeds, and what they forget."""
    gain = _gain(before, after, "validation").points()
    return f"{name}: {gain} on validation over {len(after)} seeds; {describe_forgetting(before, after)}."


def describe_forgetting(before: Sequence[Run], after: Sequence[Run]) -> str:
    """Describe round forgetting before and after; with averaging, also that of the model sent to clients."""
    old, new = (100 * mean([run.forgetting for run in arm]) for arm in (before, after))
    words = f"round forgetting {new:.1f} points instead of {old:.1f}"
    if after[0].config.averaging is None:
        return words
    sent = 100 * mean([per_round(run.read) for run in after])
    return f"{words} (model sent to clients: {sent:.1f})"


def nothing_to_cure(alike: bool) -> str:
    """Return the sentence for a run that forgets little; `alike`: for clients with alike class mixes."""
    why = (
        "The clients' class mixes are alike: round forgetting is the variation of training on few clients, "
        "not a loss of classes that they lack. There is nothing to cure"
        if alike
        else "Little is forgotten: there is nothing to cure"
    )
    return f"{why}; keep the run. `eunoe tune` searches for better settings of any run."


def no_validation_data(share: float) -> str:
    """Return the sentence for a run without validation data."""
    return (
        f"The run has no validation data: all runs of the cure hold out {share:.0%} of each client's samples "
        f"(split.validation={share:g}). The config that is written does not."
    )


def no_search(budget: float, needed: float) -> str:
    """Return the sentence for a budget that is too short for a search."""
    return (
        f"A budget of {format_budget(budget)} is too short for a search (use at least "
        f"{format_budget(needed)}, and another --out); only averaging was evaluated."
    )


def no_better_remedy(search: Sequence[TrialResult], label: str, seeds: int, metric: str) -> str:
    """Return the sentence for a search in which the baseline came out best."""
    others = sum(result.label != label for result in search)
    word = "seed" if seeds == 1 else "seeds"
    return (
        f"No remedy is better; keep {label}. Of {others} remedies tried on {seeds} search {word}, none "
        f"reached its validation {metric}."
    )


def too_few_seeds(winner: Remedy, before: Sequence[Run], after: Sequence[Run], seeds: int) -> str:
    """Return the sentence for a budget that ended among the fresh seeds; test results are not read."""
    words = f"The budget ended after {len(after)} of {seeds} fresh seeds"
    if len(after) > 1:
        gain = _gain(before, after, "validation").points()
        words += f", on which {winner.name}, the best of the search, has {gain} on validation"
    return f"{words}. Too few for a verdict: run the same command to continue, with as much time again."


def _gain(before: Sequence[Run], after: Sequence[Run], part: str) -> Interval:
    return paired_interval([_final(run, part) for run in after], [_final(run, part) for run in before])


def _final(run: Run, part: str) -> float:
    """Return a run's main metric in the mean of its last rounds."""
    task = run.read.task
    return task.floor if run.status["state"] == "diverged" else run.read.final(f"{part}.{task.metric}")


def _table(arms: Sequence[Sequence[Run]]) -> Table:
    rows = []
    for arm in arms:
        records = [run.read for run in arm]
        megabytes = [
            sum(record.get("bytes_up", 0) + record.get("bytes_down", 0) for record in run.metrics) / 1e6
            for run in records
        ]
        rows.append(
            [
                arm[0].config.title,
                mean_std([_final(run, "validation") for run in arm], 3),
                mean_std([run.round_forgetting for run in records], 4),
                mean_std([per_round(run) for run in records], 4),
                mean_std([_final(run, "test") for run in arm], 3),
                mean_std([float(run.status.get("seconds", np.nan)) for run in records], 1),
                f"{mean(megabytes):.1f}",
            ]
        )
    headings = ["run", "validation", "forgetting", "of sent model", "test", "seconds", "MB"]
    note = (
        f"mean ± std over {len(arms[0])} fresh seeds; forgetting: per round, of the evaluated model and of "
        "the model sent to clients; MB: sent in the whole run, both ways"
    )
    return Table(headings, rows, note)

"""What a cure found: the gain on fresh seeds, whether it is one, and how that is said."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from eunoe.analysis.statistics import Interval, mean, mean_std, paired_interval
from eunoe.analysis.tables import Table
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import absolute_paths
from eunoe.config.toml import to_toml
from eunoe.metrics.forgetting import mean_over_rounds
from eunoe.search.budget import written
from eunoe.search.journal import Journal
from eunoe.search.remedies import Candidate, Forms
from eunoe.simulation.run import Run
from eunoe.store.run_records import RunRecords
from eunoe.system.files import write_text

NOT_PRIVATE = (
    "Each run of the cure trains on the same clients again, which the epsilon of one run does not count: the "
    "cured model is as private as it says only if the cure was found on other clients."
)


@dataclass(frozen=True)
class Tried:
    """A remedy of the search: how far it came, and what it reached on the search seeds."""

    label: str
    rounds: int
    accuracy: float
    forgetting: float


@dataclass(frozen=True, repr=False)
class Cure:
    """What was found: the remedy if it is a cure, its gain by seed, and the runs that show it."""

    label: str | None
    sentences: tuple[str, ...]
    validation: Interval | None
    test: Interval | None
    table: Table | None
    search: tuple[Tried, ...]
    config: Path | None
    runs: tuple[Run, ...]
    folder: Path

    def __repr__(self) -> str:
        return "\n".join([*([self.table.text()] if self.table else []), *self.sentences])


def trials_of(journal: Journal, chosen: Sequence[Forms]) -> tuple[Tried, ...]:
    """The trials of a journal in both forms: those that came further first, then the better ones."""
    found = []
    for number, (newest, mean_) in enumerate(chosen):
        reached = [rounds for trial, rounds in journal.results if trial == number]
        if reached:
            rounds = max(reached)
            last = journal.results[number, rounds]
            found.append(Tried(newest.label, rounds, last.newest_accuracy, last.newest_forgetting))
            found.append(Tried(mean_.label, rounds, last.accuracy, last.forgetting))
    return tuple(sorted(found, key=lambda one: (-one.rounds, -one.accuracy)))


def nothing_to_cure(place: Path, facts: tuple[str, ...], alike: bool) -> Cure:
    """What is said of a run that forgets little; more is little where the clients' class mixes are alike."""
    why = (
        "The clients' class mixes are alike, so what a round loses are the ups and downs of training on few "
        "clients, not classes that they lack: nothing is promised, and the run stays as it is."
        if alike
        else "Little is forgotten, so there is nothing to cure: the run stays as it is."
    )
    words = f"{why} For better settings of any run there is eunoe tune."
    return Cure(None, (*facts, words), None, None, None, (), None, (), place)


def without_validation(share: float) -> str:
    """What is said if the run has no validation data."""
    return (
        f"The run has no validation data, so each run of the cure holds out {share:.0%} of a client's data "
        f"(split.validation={share:g}), with the remedy and without; the config that is written does not."
    )


def without_search(budget: float, needed: float) -> str:
    """What is said if the budget holds no search."""
    return (
        f"{written(budget)} hold no search (--budget {written(needed)} and another --out would), "
        "so averaging is judged, which changes no training."
    )


def unfinished(
    place: Path,
    winner: Candidate,
    before: Sequence[Run],
    after: Sequence[Run],
    seeds: int,
    tried: tuple[Tried, ...],
    facts: tuple[str, ...],
) -> Cure:
    """What is said if the budget ended among the runs on fresh seeds; their test results are not read."""
    reached = f"The budget ended after {len(after)} of {seeds} fresh seeds"
    if len(after) > 1:
        found = _validated(before, after)
        reached += f", over which {winner.label}, the best of the search, has {found.points()} on validation"
    words = f"{reached}. Nothing is promised on fewer: the same command goes on, with as much time again."
    return Cure(None, (*facts, words), None, None, None, tried, None, (), place)


def _validated(before: Sequence[Run], after: Sequence[Run]) -> Interval:
    return paired_interval(*([_final(run, "validation") for run in arm] for arm in (after, before)))


def _final(run: Run, part: str) -> float:
    """What a run has in the mean of its last rounds, as many as its configuration says."""
    task = run.read.task
    return task.floor if run.status["state"] == "diverged" else run.read.final(f"{part}.{task.metric}")


def nothing_found(tried: Sequence[Tried], label: str, seeds: int, title: str) -> str:
    """The sentence for a search in which the run as it is came out best."""
    others = [one for one in tried if one.label != label]
    word = "seed" if seeds == 1 else "seeds"
    return (
        f"Nothing did better than {label} as it is: of {len(others)} remedies tried on {seeds} search "
        f"{word}, none reached its validation {title}. Keep it."
    )


def received_forgetting(run: RunRecords) -> float:
    """Mean round forgetting of the model that clients receive, which may not be the evaluated one."""
    rounds, values = run.series("sent.forgetting.round")
    return mean_over_rounds(values, rounds) if len(rounds) else run.round_forgetting


def gained(name: str, before: Sequence[Run], after: Sequence[Run]) -> str:
    """What runs gain over those before on the same seeds, and what they forget, in one sentence."""
    return f"{_gain(name, _validated(before, after), after)}; {forgotten(before, after)}."


def _gain(name: str, validation: Interval, after: Sequence[Run]) -> str:
    return f"{name}: {validation.points()} on validation over {len(after)} fresh seeds"


def forgotten(before: Sequence[Run], after: Sequence[Run]) -> str:
    """What the evaluated model forgets and, where it is a mean of models, what that of the clients does."""
    old, new = (100 * mean([run.forgetting for run in arm]) for arm in (before, after))
    words = f"it forgets {new:.1f} points a round instead of {old:.1f}"
    if after[0].config.averaging is None:
        return words
    received = 100 * mean([received_forgetting(run.read) for run in after])
    return f"{words}, and the model that clients receive {received:.1f}"


def judged(
    place: Path,
    config: Config,
    winner: Candidate,
    before: Sequence[Run],
    after: Sequence[Run],
    tried: tuple[Tried, ...],
    facts: tuple[str, ...],
) -> Cure:
    """The gain of the winner's runs over the others, seed by seed; its config is written if it is a cure.

    `config` is that of the run to cure, which the winner's changes are made in.
    """
    validation = _validated(before, after)
    name, path = winner.label, place / "cure.toml"
    gain = _gain(name, validation, after)
    if validation.positive:
        write_text(path, to_toml(_changed(winner, config)))
        words = f"{gain}; {forgotten(before, after)}."
    else:
        kept = f"Nothing is better beyond its interval: keep {config.title} as it is."
        words = f"{kept} {'The best of the search, ' if tried else 'What was judged, '}{gain}."
    # Whether it is a cure is decided; only now are the test results read.
    test = paired_interval(*([_final(run, "test") for run in arm] for arm in (after, before)))
    sentences = [*facts, words]
    if np.isfinite(test.mean):
        sentences.append(f"On the test set, read once: {test.points()}.")
    runs = (*before, *after)
    return Cure(
        name if validation.positive else None,
        tuple(sentences),
        validation,
        test if np.isfinite(test.mean) else None,
        _table([before, after]),
        tried,
        path if validation.positive else None,
        runs,
        place,
    )


def _changed(winner: Candidate, config: Config) -> dict[str, Any]:
    """The configuration of the run to cure with the winner's changes and its name."""
    changed = winner.treatment.applied(config.model_dump(exclude_none=True), config)
    values = make_config({**(changed or {}), "name": winner.label}).model_dump(mode="json", exclude_none=True)
    return absolute_paths(values)


def _table(arms: Sequence[Sequence[Run]]) -> Table:
    rows = []
    for arm in arms:
        read = [run.read for run in arm]
        moved = [
            sum(record.get("bytes_up", 0) + record.get("bytes_down", 0) for record in one.metrics) / 1e6
            for one in read
        ]
        rows.append(
            [
                arm[0].config.title,
                mean_std([_final(run, "validation") for run in arm], 3),
                mean_std([one.round_forgetting for one in read], 4),
                mean_std([received_forgetting(one) for one in read], 4),
                mean_std([_final(run, "test") for run in arm], 3),
                mean_std([float(one.status.get("seconds", np.nan)) for one in read], 1),
                f"{mean(moved):.1f}",
            ]
        )
    headings = ["run", "validation", "forgetting", "of clients' model", "test", "seconds", "MB"]
    note = (
        f"mean ± std over {len(arms[0])} fresh seeds; forgetting: of the evaluated model, and of that "
        "which clients receive; MB: moved in the whole run"
    )
    return Table(headings, rows, note)

"""The result of a cure: scores of its runs, the gain on fresh seeds, the verdict, and its sentences.

The best checkpoint of a run is the model with the highest score on the first half of the validation samples
(`validation`); its scores on the second half (`judging`) and on the test set had no part in picking it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from eunoe.analysis.diagnosis import per_round
from eunoe.analysis.remedies import Remedy
from eunoe.analysis.statistics import Interval, mean, mean_std, paired_interval
from eunoe.analysis.tables import Table
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import absolute_paths, to_toml
from eunoe.search.journal import TrialResult
from eunoe.simulation.hooks import retains
from eunoe.simulation.run import Run
from eunoe.store.run_records import Record, RunRecords
from eunoe.system.files import write_text

NOT_PRIVATE = (
    "Every run of the cure trains on the same clients, which the epsilon of a single run does not include: "
    "it is valid for the cured model only if the search used other clients. Picking a checkpoint would spend "
    "more privacy, so runs are compared by their last rounds."
)
_GIVEN = {"best": "best checkpoint", "last": "last rounds"}
# What an outcome has besides the score, and the loss of it on one seed that is not mentioned.
_BESIDES = ("balanced accuracy", "worst class", "worst tenth of clients")
_NEGLIGIBLE = 0.01
# The model that is evaluated, or the one that clients receive if averaging makes it another.
Model = Literal["", "sent"]
Which = Literal["best", "last"]
SETS = ("validation", "judging", "test")


class Outcome(NamedTuple):
    """Scores of one model of a run by set, for classes and clients too."""

    score: Mapping[str, float]
    balanced: Mapping[str, float]
    worst_class: Mapping[str, float]
    worst_client: Mapping[str, float]


def read_outcome(
    run: RunRecords, which: Which = "best", model: Model = "", until: int | None = None
) -> Outcome:
    """Return the scores of a run's best checkpoint, or the means over its last rounds, up to a round."""
    rounds = [record for record in run.metrics if until is None or record["round"] <= until]
    sections = [record.get("sent", {}) if model else record for record in rounds]
    records = [record for record in sections if record.get("score", {}).get("validation") is not None]
    floor = dict.fromkeys(SETS, run.task.floor)
    if run.status["state"] == "diverged" or not records:
        return Outcome(floor, floor, floor, floor)
    config = run.checked_config
    if which == "best":
        kept = [record for record in records if retains(record, config)]
        chosen = sorted(kept, key=lambda record: -record["score"]["validation"])[:1]
    else:
        chosen = records[-config.evaluation.last :]
        chosen = chosen if all(retains(record, config) for record in chosen) else []
    if not chosen:
        return Outcome(floor, floor, floor, floor)

    def read(value: Any) -> dict[str, float]:
        return {name: mean([value(record, name) for record in chosen]) for name in SETS}

    return Outcome(
        read(lambda record, name: record["score"].get(name, np.nan)),
        read(lambda record, name: _over_classes(record, name, np.nanmean)),
        read(lambda record, name: _over_classes(record, name, np.nanmin)),
        read(_worst_tenth),
    )


def _worst_tenth(record: Record, name: str) -> float:
    value = (record.get(name, {}).get("clients") or {}).get("worst_tenth")
    # Clients may be too few or too small.
    return np.nan if value is None else float(value)


def _over_classes(record: Record, name: str, statistic: Any) -> float:
    values = np.array(record.get(name, {}).get("per_class") or [np.nan], np.float64)
    return float("nan") if np.isnan(values).all() else float(statistic(values))


@dataclass(frozen=True, repr=False)
class Cure:
    """The result of a cure: the remedy (None: keep the baseline), its gains, and the runs that show them.

    `gain` is that over the baseline on the validation samples kept for judging, `over_last` that over the
    baseline's last rounds, `test` that over the baseline on the test set.
    """

    folder: Path
    sentences: tuple[str, ...]
    search: tuple[TrialResult, ...] = ()
    label: str | None = None
    gain: Interval | None = None
    over_last: Interval | None = None
    test: Interval | None = None
    table: Table | None = None
    config: Path | None = None
    runs: tuple[Run, ...] = ()

    def __repr__(self) -> str:
        return "\n".join([*([self.table.text()] if self.table else []), *self.sentences])


@dataclass(frozen=True)
class Arms:
    """Outcomes by seed: the baseline's (best checkpoint or last rounds), its last rounds, the remedy's."""

    baseline: Sequence[Outcome]
    last: Sequence[Outcome]
    remedy: Sequence[Outcome]

    def gain(self, part: str, over_last: bool = False) -> Interval:
        """Return the gain of the remedy over the baseline, or over its last rounds, on one set."""
        before = self.last if over_last else self.baseline
        return paired_interval([one.score[part] for one in self.remedy], [one.score[part] for one in before])

    @property
    def part(self) -> str:
        """The set for classes and clients: the test set if there is one."""
        return "test" if np.isfinite(self.gain("test").mean) else "judging"


def judge(
    folder: Path,
    config: Config,
    winner: Remedy,
    before: Sequence[Run],
    after: Sequence[Run],
    which: Which,
    alternatives: Sequence[tuple[str, Outcome]],
    search: tuple[TrialResult, ...],
    facts: Sequence[str],
) -> Cure:
    """Compare the winner with the baseline seed by seed; if it is better, write cure.toml.

    `config` is that of the run to cure, in which the winner's changes are made. `which` selects the
    baseline's best checkpoint or its last rounds. `alternatives` are the other variants, the baseline first.
    """
    own: Which = "last" if config.privacy is not None else "best"
    arms = Arms(
        [read_outcome(run.read, which) for run in before],
        [read_outcome(run.read, "last") for run in before],
        [read_outcome(run.read, own) for run in after],
    )
    gain, last = arms.gain("judging"), arms.gain("judging", over_last=True)
    label, seeds = winner.label, f"{len(after)} fresh seeds"
    path = folder / "cure.toml" if gain.positive else None
    name = name_score(after[0].config)
    unit = f" points of {name}" if name else " points"
    words = f"{label}: {gain.points(unit)} over the baseline's {_GIVEN[which]}"
    if which == "best":
        words += f", {last.points()} over its last rounds"
    words += f", on validation samples kept for judging, {seeds}"
    if path is not None:
        changed = winner.apply(config.model_dump(exclude_none=True), config)
        cured = make_config({**(changed or {}), "name": label})
        write_text(path, to_toml(absolute_paths(cured.model_dump(mode="json", exclude_none=True))))
        sentences = [f"{words}; {describe_forgetting(before, after)}."]
    else:
        best = "The best of the search, " if search else ""
        sentences = [f"No candidate is significantly better; keep {config.title}. {best}{words}."]
    # The verdict stands; only now are the test results read.
    tested = arms.part == "test"
    test = arms.gain("test") if tested else None
    if test is not None:
        beside = (
            f", {arms.gain('test', over_last=True).points()} over its last rounds" if which == "best" else ""
        )
        sentences.append(f"On the test set, read once: {test.points(unit)} over the {_GIVEN[which]}{beside}.")
    if path is not None:
        sentences += describe_fairness(arms, alternatives)
    return Cure(
        folder,
        (*facts, *sentences),
        search,
        label=None if path is None else label,
        gain=gain,
        over_last=last,
        test=test,
        table=_table(arms, [before, after], which, own),
        config=path,
        runs=(*before, *after),
    )


def name_score(config: Config) -> str:
    """Return the name of the score that a cure improves; empty for the task's main metric."""
    return (config.evaluation.metric or "").replace("_", " ")


def describe_fairness(arms: Arms, alternatives: Sequence[tuple[str, Outcome]]) -> list[str]:
    """Describe the change for classes and clients; name an alternative if one of them is worse off."""
    changes = {
        name: paired_interval(
            [outcome[at][arms.part] for outcome in arms.remedy],
            [outcome[at][arms.part] for outcome in arms.baseline],
        )
        for at, name in enumerate(_BESIDES, start=1)
    }
    known = {name: change for name, change in changes.items() if np.isfinite(change.mean)}
    if not known:
        return []
    sentences = [f"{'; '.join(f'{name} {change.points()}' for name, change in known.items())}.".capitalize()]
    if harmed := [name for name, change in known.items() if change.negative]:
        words = f"It significantly lowers the {' and the '.join(harmed)}."
        label = _harmless(alternatives)
        other = f" {label} did not on the search seeds." if label else " No other candidate avoids that."
        sentences.append(words + other)
    return sentences


def _harmless(alternatives: Sequence[tuple[str, Outcome]]) -> str | None:
    """Return the best alternative that lowered neither the score nor what is reported beside it."""
    if not alternatives:
        return None
    _, baseline = alternatives[0]
    for label, outcome in alternatives[1:]:
        pairs = zip(outcome, baseline, strict=True)
        if all(not new["validation"] < old["validation"] - _NEGLIGIBLE for new, old in pairs):
            return label
    return None


def describe_forgetting(before: Sequence[Run], after: Sequence[Run]) -> str:
    """Describe round forgetting before and after; with averaging, also that of the model sent to clients."""
    old, new = (100 * mean([run.forgetting for run in arm]) for arm in (before, after))
    words = f"round forgetting {new:.1f} points instead of {old:.1f}"
    if after[0].config.averaging is None:
        return words
    sent = 100 * mean([per_round(run.read) for run in after])
    return f"{words} (model sent to clients: {sent:.1f})"


def too_few_seeds(label: str, before: Sequence[Run], after: Sequence[Run], seeds: int) -> str:
    """Return the sentence for a budget that ended among the fresh seeds; test results are not read."""
    words = f"The budget ended after {len(after)} of {seeds} fresh seeds"
    if len(after) > 1:
        scores = [[read_outcome(run.read).score["judging"] for run in arm] for arm in (after, before)]
        words += f", on which {label} has {paired_interval(*scores).points()} over the best checkpoint"
    return f"{words}. Too few for a verdict: run the same command to continue."


def _table(arms: Arms, runs: Sequence[Sequence[Run]], which: Which, own: Which) -> Table:
    baseline, remedy = (each[0].config.title for each in runs)
    shown = [(f"{baseline}, last rounds", arms.last, runs[0])]
    if which == "best":
        shown.append((f"{baseline}, best checkpoint", arms.baseline, runs[0]))
    shown.append((f"{remedy}, {_GIVEN[own]}", arms.remedy, runs[1]))
    rows = []
    for title, outcomes, group in shown:
        records = [run.read for run in group]
        megabytes = [
            sum(record.get("bytes_up", 0) + record.get("bytes_down", 0) for record in run.metrics) / 1e6
            for run in records
        ]
        places = [(0, "judging"), (0, "test"), *((at, arms.part) for at in (1, 2, 3))]
        rows.append(
            [
                title,
                *(mean_std([outcome[at][part] for outcome in outcomes], 3) for at, part in places),
                mean_std([run.round_forgetting for run in records], 4),
                mean_std([float(run.status.get("seconds", np.nan)) for run in records], 1),
                f"{mean(megabytes):.1f}",
            ]
        )
    name = name_score(runs[0][0].config)
    scores = [f"{part} {name}".strip() for part in ("validation", "test")]
    headings = ["run", *scores, "balanced", "worst class", "worst clients"]
    note = (
        f"mean ± std over {len(runs[0])} fresh seeds; validation: samples that picked nothing; worst "
        "clients: mean of the worst tenth; forgetting: per round; MB: sent in the whole run, both ways"
    )
    return Table([*headings, "forgetting", "seconds", "MB"], rows, note)

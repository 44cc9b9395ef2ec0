"""The journal of a search: its plan, its trials and their scores, one JSON line each.

    {"schema": 1, "plan": {what decides the search}}
    {"trial": 3, "label": "loss=wsm", "settings": {"loss.name": "wsm"}}
    {"trial": 3, "rounds": 15, "accuracy": 0.91, "forgetting": 0.02, "seconds": 4.1}
    {"spent": 12.5}

A search that was interrupted continues with the same plan: nothing in the journal is sampled or run again.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import numpy as np

from eunoe.config.schema import make_config
from eunoe.config.settings import rename_keys
from eunoe.errors import InputError
from eunoe.store.line_file import LineFile
from eunoe.store.schema import JournalRecord, ScoresRecord, TrialRecord, validate
from eunoe.system.files import make_folder, plain, read_lines, write_text


@dataclass(frozen=True)
class Scores:
    """Validation scores of a trial after some rounds, as means over its seeds.

    With averaging, the first two are of the averaged model, the last two of the newest model.
    """

    accuracy: float
    forgetting: float
    seconds: float
    newest_accuracy: float = math.nan
    newest_forgetting: float = math.nan
    seeds: float = 1

    @property
    def best(self) -> float:
        """The better accuracy of the two models."""
        return float(np.fmax(self.accuracy, self.newest_accuracy))


@dataclass(frozen=True)
class TrialResult:
    """A row of a search's result table: a trial, the rounds it reached, and its scores there."""

    label: str
    rounds: int
    accuracy: float
    forgetting: float
    settings: Mapping[str, Any] = field(default_factory=dict)


def rank_results(results: list[TrialResult]) -> list[TrialResult]:
    """Sort results: those with more rounds first, then by accuracy."""
    return sorted(results, key=lambda result: (-result.rounds, -result.accuracy))


def read_journal(path: Path) -> list[dict[str, Any]]:
    """Return the validated lines of a journal; none if there is no file."""
    lines = read_lines(path)
    for number, line in enumerate(lines, start=1):
        kind = ScoresRecord if "rounds" in line else TrialRecord if "trial" in line else JournalRecord
        validate(line, kind, f"line {number} of {path}")
    return lines


class Journal:
    """A journal on disk. Opening the journal of another plan raises an InputError."""

    def __init__(self, path: Path, plan: Mapping[str, Any]) -> None:
        self._file = LineFile(path)
        self.settings: dict[int, dict[str, Any]] = {}
        self.labels: dict[int, str] = {}
        self.scores: dict[tuple[int, int], Scores] = {}
        self.notes: dict[str, Any] = {}
        lines = read_journal(path)
        new = json.loads(json.dumps(plain(plan)))
        if lines:
            old = {key: _complete(key, value) for key, value in lines[0].get("plan", {}).items()}
            for key in {**old, **new}:
                if old.get(key) != new.get(key):
                    raise InputError(
                        f"{path.parent} has a search with a different {key}: use the same, or another --out"
                    )
        else:
            lines = [{"schema": 1, "plan": new}]
        make_folder(path.parent)
        # This drops a last line that a kill cut short.
        write_text(path, "".join(f"{json.dumps(line)}\n" for line in lines))
        for line in lines[1:]:
            self._load(line)

    @property
    def spent(self) -> float:
        """Seconds that the search has taken so far."""
        return float(self.notes.get("spent", 0.0))

    def last_scores(self, number: int) -> tuple[int, Scores] | None:
        """Return the rounds that a trial reached and its scores there, or None."""
        reached = [rounds for trial, rounds in self.scores if trial == number]
        return (max(reached), self.scores[number, max(reached)]) if reached else None

    def add_trial(self, number: int, label: str, settings: Mapping[str, Any]) -> None:
        """Write a trial, unless it is there."""
        if number not in self.settings:
            self._add({"trial": number, "label": label, "settings": dict(settings)})

    def add_scores(self, number: int, rounds: int, scores: Scores) -> None:
        """Write the scores of a trial."""
        self._add({"trial": number, "rounds": rounds, **vars(scores)})

    def note(self, **notes: Any) -> None:
        """Write other values; the last one of a name counts."""
        self._add(notes)

    def _add(self, line: Mapping[str, Any]) -> None:
        self._file.append([line])
        self._file.sync()
        self._load(plain(line))

    def _load(self, line: Mapping[str, Any]) -> None:
        if "rounds" in line:
            # Journals of version 0.1 do not have the number of seeds: all of them.
            seeds = {"seeds": line.get("seeds", math.inf)}
            numbers = {each.name: line.get(each.name) for each in fields(Scores)} | seeds
            self.scores[line["trial"], line["rounds"]] = Scores(
                **{key: math.nan if number is None else float(number) for key, number in numbers.items()}
            )
        elif "trial" in line:
            self.settings[line["trial"]], self.labels[line["trial"]] = line["settings"], line["label"]
        else:
            self.notes |= line


def _complete(key: str, value: Any) -> Any:
    """Return a value of a stored plan under the present names of options, with the defaults of new ones."""
    if not isinstance(value, Mapping):
        return value
    renamed = rename_keys(value)
    return make_config(renamed).model_dump(mode="json") if key in ("config", "run") else renamed

"""The journal of a search: its plan, its trials and their results, a JSON line each.

    {"schema": 1, "plan": {what decides the search}}
    {"trial": 3, "label": "loss=wsm", "settings": {"loss.name": "wsm"}}
    {"trial": 3, "rounds": 15, "accuracy": 0.91, "forgetting": 0.02, "seconds": 4.1}
    {"spent": 12.5}

What is in it is not asked or run again, so a search that was killed goes on with the same plan.
"""

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from eunoe.errors import InputError
from eunoe.system.files import plain, read_lines, write_text, writing


@dataclass(frozen=True)
class Result:
    """What a trial reached after so many rounds, as means over its seeds.

    Where global models are averaged, the first two are of their mean, the last two of the newest model.
    """

    accuracy: float
    forgetting: float
    seconds: float
    newest_accuracy: float = math.nan
    newest_forgetting: float = math.nan

    @property
    def best(self) -> float:
        """The better accuracy of the two models."""
        return float(np.fmax(self.accuracy, self.newest_accuracy))


NUMBERS = tuple(field.name for field in fields(Result))


class Journal:
    """A journal on disk; one of another plan is refused."""

    def __init__(self, path: Path, plan: Mapping[str, Any]) -> None:
        self.path = path
        self.settings: dict[int, dict[str, Any]] = {}
        self.labels: dict[int, str] = {}
        self.results: dict[tuple[int, int], Result] = {}
        self.notes: dict[str, Any] = {}
        lines = read_lines(path)
        new = json.loads(json.dumps(plain(plan)))
        if lines:
            check_plan(path, lines[0].get("plan", {}), new)
        else:
            lines = [{"schema": 1, "plan": new}]
        path.parent.mkdir(parents=True, exist_ok=True)
        # A line that a kill cut short is gone.
        write_text(path, "".join(f"{json.dumps(line)}\n" for line in lines))
        for line in lines[1:]:
            self._take(line)

    @property
    def spent(self) -> float:
        """Seconds that the search has taken so far."""
        return float(self.notes.get("spent", 0.0))

    def trial(self, number: int, label: str, settings: Mapping[str, Any]) -> None:
        """Write down what a trial is, unless it is there."""
        if number not in self.settings:
            self._add({"trial": number, "label": label, "settings": dict(settings)})

    def result(self, number: int, rounds: int, found: Result) -> None:
        """Write down what a trial reached."""
        self._add({"trial": number, "rounds": rounds, **vars(found)})

    def note(self, **notes: Any) -> None:
        """Write down anything else; the last one of a name counts."""
        self._add(notes)

    def _add(self, line: Mapping[str, Any]) -> None:
        line = plain(line)
        with writing(self.path), open(self.path, "a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")
            file.flush()
            os.fsync(file.fileno())
        self._take(line)

    def _take(self, line: Mapping[str, Any]) -> None:
        if "rounds" in line:
            known = {key: math.nan if line.get(key) is None else float(line[key]) for key in NUMBERS}
            found = Result(**known)
            self.results[line["trial"], line["rounds"]] = found
        elif "trial" in line:
            self.settings[line["trial"]], self.labels[line["trial"]] = line["settings"], line["label"]
        else:
            self.notes |= line


def check_plan(path: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Refuse to go on with another search than the one that was begun."""
    for key in {**old, **new}:
        if old.get(key) != new.get(key):
            raise InputError(
                f"{path.parent} holds a search with another {key}; give it the same, or another --out"
            )

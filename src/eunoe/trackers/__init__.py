"""Experiment trackers: TensorBoard, Weights & Biases, MLflow, or your own.

Here: the base class `Tracker`, which is the one type to know, one file per tool, and `Tracking`, which sends
a run's rounds to them. A tracker never changes the results of a run and never ends it: one that fails is
disabled with a warning. Not here: what is recorded (store/schema.py) and the figures (report/).
"""

import importlib.util
import logging
import math
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from eunoe.config import registry
from eunoe.config.options import Named
from eunoe.errors import InputError, Outcome, install_command, outcome_of
from eunoe.store.reader import read_run, read_run_config
from eunoe.system.files import make_folder, read_text, write_text
from eunoe.trackers.base import TrackedRun as TrackedRun
from eunoe.trackers.base import Tracker as Tracker

logger = logging.getLogger(__name__)

# Lists with an entry per client are sent as their mean or their length.
_AVERAGED = ("sizes", "steps", "loss_before", "loss_after", "update_norms")
_COUNTED = ("clients", "dropped")


def build_trackers(sections: Sequence[Named]) -> list[tuple[str, Tracker]]:
    """Build the trackers of a config, with their names."""
    trackers = []
    for name, options in ((section.name, section.options) for section in sections):
        tracker: Tracker = registry.build("tracker", name, options)
        if tracker.needs and importlib.util.find_spec(tracker.needs) is None:
            raise InputError(f"tracker {name!r} needs {tracker.needs}: run {install_command('track')}")
        trackers.append((name, tracker))
    return trackers


def scalars(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the numbers in the record of a round, as `part/name`."""
    return _numbers({key: value for key, value in record.items() if key not in ("schema", "round")})


def _numbers(values: Mapping[str, Any]) -> dict[str, float]:
    numbers: dict[str, float] = {}
    for key, value in values.items():
        if isinstance(value, Mapping):
            numbers |= {f"{key}/{name}": inner for name, inner in _numbers(value).items()}
        elif isinstance(value, int | float):
            numbers[key] = float(value)
        elif isinstance(value, list) and key in _COUNTED:
            numbers[key] = float(len(value))
        elif isinstance(value, list) and key in _AVERAGED and value:
            numbers[key] = sum(value) / len(value)
    return {name: value for name, value in numbers.items() if math.isfinite(value)}


class Tracking:
    """Sends a run's rounds and, at its end, its figures to trackers."""

    def __init__(self, trackers: Sequence[tuple[str, Tracker]], folder: Path, title: str) -> None:
        self._trackers, self._folder, self._title = list(trackers), folder, title
        self._round = 0
        # How the run ended, unless an exception ends it.
        self.outcome: Outcome = "finished"

    def __enter__(self) -> "Tracking":
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._round and kind is None and self._trackers:
            for name, png in self._figures().items():
                self._send(lambda tracker, name=name, png=png: tracker.figure(self._round, name, png))  # type: ignore[misc]
        if self._round:
            outcome = self.outcome if kind is None else outcome_of(kind)
            self._send(lambda tracker: tracker.close(outcome))

    def send(self, record: Mapping[str, Any]) -> None:
        """Send the record of a round."""
        if not self._trackers:
            return
        round = int(record["round"])
        if not self._round:
            # Not before the end of the first round: an engine that forks its workers beside a tool's
            # threads might hang.
            config, name = read_run_config(self._folder), identity(self._folder)
            run = TrackedRun(self._folder, self._title, config, name, round)
            self._send(lambda tracker: tracker.start(run))
        self._round = round
        values = scalars(record)
        self._send(lambda tracker: tracker.scalars(round, values))

    def _send(self, what: Callable[[Tracker], None]) -> None:
        for name, tracker in list(self._trackers):
            try:
                what(tracker)
            except Exception as error:  # A failing tool must not end the run.
                self._trackers.remove((name, tracker))
                _warn(f"tracker {name!r} failed and is disabled", error)

    def _figures(self) -> dict[str, bytes]:
        from eunoe.report.export import draw
        from eunoe.report.figures import all_figures

        try:
            figures = all_figures([read_run(self._folder)])
            return {figure.name: draw(figure.chart, "png") for figure in figures}
        except Exception as error:
            _warn("figures were not sent to the trackers", error)
            return {}


def _warn(what: str, error: Exception) -> None:
    logger.warning("%s: %s: %s", what, type(error).__name__, error)


def identity(folder: Path) -> str:
    """Return the unique identifier of a run, stored in its folder."""
    path = folder / "track" / "id"
    if not path.exists():
        make_folder(path.parent)
        write_text(path, secrets.token_hex(8))
    return read_text(path)

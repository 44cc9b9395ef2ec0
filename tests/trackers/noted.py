"""A tracker that records all calls, and small runs that are tracked."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from eunoe.errors import Outcome
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from eunoe.trackers.base import TrackedRun, Tracker
from tests.helpers import blobs

SMALL: dict[str, Any] = {
    "rounds": 3,
    "participation": 2,
    "probes": [],
    "engine": "serial",
    "evaluation": {"every": 1},
}


class Noted(Tracker):
    """A user's own tracker, which records all calls."""

    fails_at: int = 0

    calls: ClassVar[list[Any]] = []

    def start(self, run: TrackedRun) -> None:
        self.calls.append(("start", run.title, run.identity, run.first_round))

    def scalars(self, round: int, values: Mapping[str, float]) -> None:
        if round == self.fails_at:
            raise OSError("the disk is full")
        self.calls.append(("scalars", round, dict(values)))

    def figure(self, round: int, name: str, png: bytes) -> None:
        self.calls.append(("figure", round, name, png[:4]))

    def close(self, outcome: Outcome) -> None:
        self.calls.append(("close", outcome))


OWN = f"{__name__}:Noted"


def tracked(folder: Path, *track: Any, **values: Any) -> Run:
    return run(federation=blobs(), model="mlp", out=folder, track=list(track), **{**SMALL, **values})


def failing(error: type[BaseException]) -> Any:
    """A callback that fails at the second round."""

    def fail(record: Any) -> None:
        if record["round"] == 2:
            raise error("no more")

    return fail

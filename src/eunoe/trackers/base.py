"""What a tracker is: it hands the numbers and figures of a run to a tool that shows them."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from eunoe.config.options import Options
from eunoe.errors import Outcome


@dataclass(frozen=True)
class TrackedRun:
    """The run that a tracker follows."""

    folder: Path
    title: str
    config: Mapping[str, Any]
    # Of this run and no other; the same when the run goes on after a break.
    identity: str
    # The first round that is told; what a tool knows of later ones is from before a break.
    first_round: int

    @property
    def place(self) -> Path:
        """Where in the run folder a tool may keep its files."""
        return self.folder / "track"


class Tracker(Options, ABC):
    """Base of the trackers: its fields are its options; what it has opened is in private attributes."""

    # The package that must be installed for it.
    needs: ClassVar[str] = ""

    @abstractmethod
    def start(self, run: TrackedRun) -> None:
        """Called once, when the first round has ended."""

    @abstractmethod
    def scalars(self, round: int, values: Mapping[str, float]) -> None:
        """The numbers of a round, by names such as `test/accuracy`."""

    @abstractmethod
    def figure(self, round: int, name: str, png: bytes) -> None:
        """A figure of the whole run, after its last round."""

    def close(self, outcome: Outcome) -> None:
        """Called at the end, with how the run ended: finished, interrupted, diverged or failed."""

"""The base of trackers, which send the numbers and figures of a run to an external tool."""

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
    # Unique to this run; the same after it is resumed.
    identity: str
    # The first round that is sent; later ones that a tool already has are from before an interruption.
    first_round: int

    @property
    def place(self) -> Path:
        """The part of the run folder for a tool's files."""
        return self.folder / "track"


class Tracker(Options, ABC):
    """Base of the trackers: its fields are its options; open resources are private attributes."""

    # The package that it requires.
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

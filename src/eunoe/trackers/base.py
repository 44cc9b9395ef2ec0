"""The base class of trackers."""

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
    # Unique to this run, and the same after it is resumed.
    identity: str
    # The first round that is sent; later rounds that the tool already has precede an interruption.
    first_round: int

    @property
    def place(self) -> Path:
        """The folder for a tool's files."""
        return self.folder / "track"


class Tracker(Options, ABC):
    """Base of the trackers, which send numbers and figures of a run to an external tool.

    Fields are options; open resources are private attributes.
    """

    # The Python package that it requires.
    needs: ClassVar[str] = ""

    @abstractmethod
    def start(self, run: TrackedRun) -> None:
        """Open the run in the tool; called once, after the first round."""

    @abstractmethod
    def scalars(self, round: int, values: Mapping[str, float]) -> None:
        """Send the numbers of a round, by names such as `test/accuracy`."""

    @abstractmethod
    def figure(self, round: int, name: str, png: bytes) -> None:
        """Send a figure of the whole run; called after its last round."""

    def close(self, outcome: Outcome) -> None:
        """Close the run in the tool; `outcome` is finished, interrupted, diverged or failed."""

"""Trackers receive few figures, since drawing takes longest."""

import pytest

from eunoe.report.figures import curves
from tests.trackers.noted import Noted


@pytest.fixture(autouse=True)
def _start_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    Noted.calls.clear()
    # Two figures stand for all: drawing takes longest.
    monkeypatch.setattr(
        "eunoe.report.figures.SECTIONS", {"Over the rounds": (curves.ACCURACY, curves.ROUND_FORGETTING)}
    )

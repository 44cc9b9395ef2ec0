"""Accuracy of the global model over the rounds."""

from collections.abc import Sequence
from typing import Any

from eunoe.records.reader import Array, RunRecords
from eunoe.report.figures.common import ROUNDS, Kind, always, band, band_and_line
from eunoe.report.theme import Row, described


def series(run: RunRecords) -> tuple[Sequence[int], Array]:
    """Accuracy of the global model in the rounds in which it was measured."""
    return run.rounds, run.curve("accuracy")


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Accuracy of the global model per round."""
    return band(runs, series)


def draw(rows: Sequence[Row]) -> Any:
    """Mean accuracy over seeds per round, with a band of one standard deviation."""
    last = {row["run"]: row for row in rows}
    ends = "; ".join(f"{label} ends at {row['mean']:.1%}" for label, row in last.items())
    chart = band_and_line(rows, "accuracy", zero=False)
    return described(chart, f"Line chart of accuracy over rounds. {ends}.")


FIGURE = Kind(
    "accuracy",
    ROUNDS,
    1,
    always("How accurate the global model is: a steady climb keeps what it learned"),
    "Mean over seeds; the band is one standard deviation.",
    rows,
    draw,
)

"""Loss of the global model over the rounds, where it is what a task is about."""

from collections.abc import Sequence
from typing import Any

from eunoe.core.tasks import Classification
from eunoe.report.figures.common import ROUNDS, Kind, always, band, band_and_line
from eunoe.report.theme import Row, described
from eunoe.store.run_records import Array, RunRecords


def series(run: RunRecords) -> tuple[Sequence[int], Array]:
    """Loss of the global model in the rounds in which it was measured."""
    return run.rounds, run.curve("loss")


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Loss of the global model per round; none of classifiers, which are read by their accuracy."""
    return band([run for run in runs if run.task is not Classification], series, signed=True)


def draw(rows: Sequence[Row]) -> Any:
    """Mean loss over seeds per round, with a band of one standard deviation."""
    last = {row["run"]: row for row in rows}
    ends = "; ".join(f"{label} ends at {row['mean']:.3g}" for label, row in last.items())
    chart = band_and_line(rows, "loss", zero=False, share=False)
    return described(chart, f"Line chart of loss over rounds. {ends}.")


FIGURE = Kind(
    "loss",
    ROUNDS,
    1,
    always("The loss of the global model: every rise is a round that made it worse"),
    "Binary cross-entropy, mean over labels, or squared error in units of the targets' variance in the "
    "training data: 1 is what their mean has.",
    rows,
    draw,
)

"""Accuracy of the global model over the rounds, or what a task has in its place."""

from collections.abc import Sequence
from typing import Any

from eunoe.core.tasks import Regression
from eunoe.report.figures.common import ROUNDS, Kind, always, band, band_and_line
from eunoe.report.theme import Row, described
from eunoe.store.main_metric import common_task
from eunoe.store.run_records import Array, RunRecords


def series(run: RunRecords) -> tuple[Sequence[int], Array]:
    """Accuracy (or F1 or R²) of the global model in the rounds in which it was measured."""
    return run.rounds, run.curve(run.task.metric)


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Accuracy of the global model per round."""
    tasks = [run.task for run in runs]
    title = common_task(tasks).title
    return [{**row, "metric": title} for row in band(runs, series, signed=Regression in tasks)]


def draw(rows: Sequence[Row]) -> Any:
    """Mean accuracy over seeds per round, with a band of one standard deviation."""
    last = {row["run"]: row for row in rows}
    ends = "; ".join(f"{label} ends at {row['mean']:.1%}" for label, row in last.items())
    metric = rows[0]["metric"]
    chart = band_and_line(rows, metric, zero=False)
    return described(chart, f"Line chart of {metric} over rounds. {ends}.")


FIGURE = Kind(
    "accuracy",
    ROUNDS,
    1,
    always("How accurate the global model is: a steady climb keeps what it learned"),
    "Mean over seeds; the band is one standard deviation.",
    rows,
    draw,
)

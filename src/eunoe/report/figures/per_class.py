"""Accuracy of the global model on each class, over the rounds."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.report.figures import charts
from eunoe.report.figures.charts import Display, Figure, Kind
from eunoe.report.figures.series import Row, first_seeds, thin
from eunoe.report.theme import MOST_CELLS, MOST_CLASSES, MOST_POINTS, PANEL
from eunoe.store.run_records import RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return per-class accuracy over rounds of each label's first seed."""
    rows, groups = list[Row](), first_seeds(runs)
    most = min(MOST_POINTS, MOST_CELLS // max(1, sum(len(classes) for _, classes in groups.values())))
    for label, (run, classes) in groups.items():
        history, rounds = run.per_class, run.rounds
        names = run.names(history.shape[1]) if len(history) else []
        shown = thin(range(len(history)), most)
        ends = [*(rounds[index] for index in shown[1:]), rounds[-1] + 1] if shown else []
        for index, end in zip(shown, ends, strict=True):
            cell = {"run": label, "round": rounds[index], "end": end}
            rows += [
                {**cell, "class": names[c], "accuracy": float(history[index, c])}
                for c in classes
                if not np.isnan(history[index, c])
            ]
    return rows


def draw(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the accuracy of each class over rounds, one panel per run."""
    names, task = charts.class_names(rows), display.task

    def panel(base: Any) -> Any:
        return base.mark_rect().encode(
            charts.round_axis(grid=False, scale=alt.Scale(nice=False, zero=False)),
            alt.X2("end:Q"),
            alt.Y("class:N", sort=names, title=task.unit, axis=charts.NO_GRID),
            display.unit_color(),
            tooltip=["run:N", "round:Q", *display.unit_tips()],
        )

    def describe(own: list[Row]) -> str:
        low = min((row for row in own if row["round"] == own[-1]["round"]), key=lambda row: row["accuracy"])
        return f"ends with {low['accuracy']:.1%} on {task.unit} {low['class']}, its lowest"

    text = f"Heat map of {task.unit_metric} per {task.unit} over rounds. "
    text += f"{charts.describe_runs(rows, describe)}."
    chart = charts.panel_per_run(rows, panel, height=max(PANEL, 9 * len(names)))
    return Figure(
        f"{charts.capitalize(task.unit_metric)} of each {task.unit}: a dark cell right of a bright one is a "
        f"{task.unit} forgotten",
        f"Global model. Of more than {MOST_CLASSES} {task.units}, those that lose most per round are shown.",
        chart.properties(description=text),
    )


KIND = Kind("per-class", rows, draw)

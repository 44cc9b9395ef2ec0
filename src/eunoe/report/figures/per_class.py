"""Accuracy of the global model on each class, over the rounds."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.report.figures.common import (
    ACCURACY,
    WHICH,
    Kind,
    accuracy_key,
    always,
    class_names,
    first_seeds,
    in_panels,
    of_run,
    run_labels,
    whole_rounds,
)
from eunoe.report.theme import MOST_CELLS, MOST_POINTS, PANEL, Row, described, thinned
from eunoe.store.run_records import RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Per-class accuracy over rounds of each label's first seed."""
    found, groups = list[Row](), first_seeds(runs)
    points = min(MOST_POINTS, MOST_CELLS // max(1, sum(len(shown) for _, shown in groups.values())))
    for label, (run, shown) in groups.items():
        history, rounds = run.per_class, run.rounds
        names = run.names(history.shape[1]) if len(history) else []
        kept = thinned(range(len(history)), points)
        ends = [*(rounds[index] for index in kept[1:]), rounds[-1] + 1] if kept else []
        for index, end in zip(kept, ends, strict=True):
            for c in shown:
                if not np.isnan(value := float(history[index, c])):
                    common = {"run": label, "round": rounds[index], "end": end}
                    found.append({**common, "class": names[c], "accuracy": value})
    return found


def draw(rows: Sequence[Row]) -> Any:
    """Accuracy of each class over rounds, one panel per run."""
    names = class_names(rows)
    hover = [
        alt.Tooltip("run:N"),
        alt.Tooltip("class:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("accuracy:Q", format=".1%"),
    ]
    panels = []
    for label in run_labels(rows):
        chart = alt.Chart().transform_filter(of_run(label)).mark_rect()
        chart = chart.encode(
            alt.X(
                "round:Q",
                title="round",
                scale=alt.Scale(nice=False, zero=False),
                axis=whole_rounds(grid=False),
            ),
            alt.X2("end:Q"),
            alt.Y("class:N", sort=names, title="class", axis=alt.Axis(grid=False)),
            alt.Color("accuracy:Q", scale=ACCURACY, legend=accuracy_key()),
            tooltip=hover,
        )
        panels.append(chart.properties(width=1.5 * PANEL, height=max(PANEL, 9 * len(names)), title=label))
    text = f"Heat-map of accuracy per class over rounds for {', '.join(run_labels(rows))}. {_worst(rows)}"
    return described(in_panels(panels, rows), text)


def _worst(rows: Sequence[Row]) -> str:
    words = []
    for label in run_labels(rows):
        last = max(row["round"] for row in rows if row["run"] == label)
        ends = [row for row in rows if row["run"] == label and row["round"] == last]
        low = min(ends, key=lambda row: row["accuracy"])
        words.append(f"{label} ends with {low['accuracy']:.1%} on class {low['class']}, its lowest")
    return f"{'; '.join(words)}."


FIGURE = Kind(
    "per-class",
    WHICH,
    2,
    always("Each class over the rounds: a dark cell right of a bright one is a class forgotten"),
    "Accuracy of the global model on each class; of many classes, the forty that lose most.",
    rows,
    draw,
)

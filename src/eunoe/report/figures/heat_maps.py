"""Whose knowledge a client's training loses: forgetting matrices with a slider over rounds, their means."""

import math
from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.report.figures.common import (
    in_points,
    of_run,
    round_axis,
    round_slider,
    run_labels,
    slider_rounds,
    slider_start,
)
from eunoe.report.theme import PANEL, Row, described, run_color, table


def client_matrices(rows: Sequence[Row]) -> Any:
    """Accuracy before and after training and the difference, model by data; a line of panels per run."""
    labels = run_labels(rows)
    largest = max(abs(row["lost"]) for row in rows)
    limit = max(0.1, math.ceil(10 * largest) / 10)
    accuracy = alt.Scale(domain=[0, 1])
    signed = alt.Scale(domain=[-limit, limit], domainMid=0, interpolate="rgb")
    # One data set for all panels: three panels per run would otherwise carry it three times.
    panels, columns = [], _most_columns(rows)
    for label in labels:
        for field, title, scale in (
            ("before", "before local training", accuracy),
            ("after", "after local training", accuracy),
            ("lost", "forgotten", signed),
        ):
            # Only what is forgotten has the column of means.
            axis = _column_axis(columns if field == "lost" else columns - 1)
            panels.append(_panel(label, field, title, scale, axis, legend=label == labels[-1]))
    chart = alt.concat(*panels, columns=3, spacing={"row": 28, "column": 24}, data=table(rows))
    chart = chart.add_params(round_slider(rows)).resolve_scale(
        color="independent", x="independent", y="independent"
    )
    return described(chart, _matrix_text(rows, labels))


def _most_columns(rows: Sequence[Row]) -> int:
    """How many columns the widest panel has."""
    panels: dict[tuple[Any, Any], set[Any]] = {}
    for row in rows:
        panels.setdefault((row["run"], row["probe"]), set()).add(row["data"])
    return max(map(len, panels.values()), default=1)


def _column_axis(columns: int) -> alt.Axis:
    """An axis of clients that has room for its labels: every so-manieth, and always the last."""
    last, every = columns - 1, math.ceil(columns / 11)
    here = f"round(datum.index * {last})"
    written = f"{here} === {last} || {here} % {every} === 0 && {here} <= {last - every}"
    return alt.Axis(labelAngle=0, labelOverlap=False, labelExpr=f"{written} ? datum.label : ''", grid=False)


def _panel(label: str, field: str, title: str, scale: alt.Scale, axis: alt.Axis, legend: bool) -> Any:
    named = "accuracy lost" if field == "lost" else "accuracy"
    key = alt.Legend(title=named, format=".0%", orient="bottom") if legend else None
    hover = [
        alt.Tooltip("model:N", title="model of client"),
        alt.Tooltip("data:N", title="data of client"),
        alt.Tooltip("before:Q", format=".1%"),
        alt.Tooltip("after:Q", format=".1%"),
        alt.Tooltip("lost:Q", title="forgotten", format=".1%"),
        alt.Tooltip("round:Q"),
    ]
    numeric = alt.EncodingSortField("order", op="min")
    # Clients sort by number, and "F_k" comes last.
    order = "isNaN(+datum.data) ? 1e9 : +datum.data"
    shown = f"{of_run(label)} && datum.probe === probe && isValid(datum.{field})"
    cells = (
        alt.Chart()
        .transform_filter(shown)
        .transform_calculate(order=order, row="+datum.model")
        .encode(
            alt.X("data:N", sort=numeric, title="data of client", axis=axis),
            alt.Y(
                "model:N",
                sort=alt.EncodingSortField("row", op="min"),
                title="model of client",
                axis=alt.Axis(grid=False),
            ),
        )
    )
    filled = cells.mark_rect().encode(alt.Color(f"{field}:Q", scale=scale, legend=key), tooltip=hover)
    own = cells.transform_filter("datum.own === 1").mark_rect(
        fill=None, stroke="currentColor", strokeWidth=1.5, strokeOpacity=0.75
    )
    heading = alt.Title(label, subtitle=title)
    return alt.layer(filled, own).properties(width=PANEL, height=PANEL, title=heading)


def _matrix_text(rows: Sequence[Row], labels: Sequence[str]) -> str:
    shown = slider_start(rows)
    words = []
    for label in labels:
        means = [
            row["lost"]
            for row in rows
            if row["run"] == label and row["probe"] == shown and row["data"] == "F_k"
        ]
        if means:
            words.append(f"{label} {in_points(means)}")
    number = slider_rounds(rows)[shown]
    return (
        "Heat-maps of accuracy of each client's model (rows) on each client's data (columns), before and "
        "after local training, and the difference. Mean forgotten on others' data in round "
        f"{number}: {'; '.join(words)}."
    )


def client_means(rows: Sequence[Row]) -> Any:
    """Mean forgetting F_k of every probed client over rounds, as in the WSM paper's figure 4."""
    labels = run_labels(rows)
    data = table(rows)
    height = alt.Y("lost:Q", title="forgotten on others' data", axis=alt.Axis(format="%"))
    base = alt.Chart(data).encode(round_axis())
    hover = [
        alt.Tooltip("run:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("client:N"),
        alt.Tooltip("lost:Q", title="forgotten", format=".1%"),
    ]
    points = base.mark_circle(opacity=0.3, size=24).encode(height, run_color(labels), tooltip=hover)
    means = base.mark_line(point=True).encode(
        alt.Y("mean(lost):Q", title="forgotten on others' data"),
        run_color(labels),
        tooltip=["run:N", "round:Q", alt.Tooltip("mean(lost):Q", title="mean forgotten", format=".1%")],
    )
    words = []
    for label in labels:
        values = [row["lost"] for row in rows if row["run"] == label]
        words.append(f"{label} {in_points(values)}")
    text = "Accuracy on other clients' data that local training loses, per client and round; mean: "
    return described(alt.layer(points, means), f"{text}{'; '.join(words)}.")

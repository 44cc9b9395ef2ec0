"""Whose knowledge a client's training loses: forgetting matrices with a slider over rounds."""

import math
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.metrics import forgetting
from eunoe.report.figures.common import (
    WHO,
    Kind,
    by_label,
    in_points,
    later,
    of_run,
    probed,
    round_slider,
    run_labels,
    slider_rounds,
    slider_start,
)
from eunoe.report.theme import MOST_CLIENTS, PANEL, Row, described, table
from eunoe.store.run_records import RunRecords, numbers


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Each cell of the client forgetting matrix of each label's first seed; F_k is the column named "F_k"."""
    rounds, found = probed(runs, "client_matrix"), list[Row]()
    for label, seeds in by_label(runs).items():
        for record in seeds[0].probe("client_matrix"):
            if int(record["round"]) not in rounds:
                continue
            start, after = numbers(record["start"]), numbers(record["after"])
            models, data = record["models"], record["data"]
            lost = forgetting.client_forgetting(start, after, models, data)
            common = {
                "run": label,
                "probe": rounds.index(int(record["round"])),
                "round": int(record["round"]),
            }
            shown = list(enumerate(models))[:MOST_CLIENTS]
            columns = _columns([model for _, model in shown], data)
            for i, model in shown:
                for k, owner in columns:
                    if not np.isnan(lost.matrix[i, k]):
                        found.append(
                            {
                                **common,
                                "model": str(model),
                                "data": str(owner),
                                "own": int(model == owner),
                                "before": float(start[k]),
                                "after": float(after[i, k]),
                                "lost": float(lost.matrix[i, k]),
                            }
                        )
                if not np.isnan(lost.by_model[i]):
                    mean = {"before": None, "after": None, "lost": float(lost.by_model[i])}
                    found.append({**common, "model": str(model), "data": "F_k", "own": 0, **mean})
    return found


def _columns(models: Sequence[int], data: Sequence[int]) -> list[tuple[int, int]]:
    """The clients whose data are shown, in order: the models' own, and as many others as fit."""
    own_first = sorted(enumerate(data), key=lambda column: column[1] not in models)
    return sorted(own_first[: 2 * MOST_CLIENTS])


def title(rows: Sequence[Row]) -> str:
    """Whether training on one client costs accuracy on the others, over all rounds and runs."""
    means = [row["lost"] for row in later(rows) if row["data"] == "F_k"]
    lost = sum(means) / len(means) if means else 0.0
    verb = "costs" if lost > 0.0005 else "adds" if lost < -0.0005 else "changes"
    amount = in_points([abs(lost)]) if verb != "changes" else "nothing"
    return f"Training on one client {verb} {amount} on the others' data: orange is forgotten, blue is learned"


def draw(rows: Sequence[Row]) -> Any:
    """Accuracy before and after training and the difference, model by data; a row of panels per run."""
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
    """An axis of clients with room for its labels: every n-th client, and always the last."""
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


FIGURE = Kind(
    "client-matrices",
    WHO,
    3,
    title,
    "Rows are clients' models, columns are clients' data; outlined cells are a client's own data. "
    "The last column is F_k, the mean over all other clients' data, also those that do not fit here. "
    "All runs share one color scale.",
    rows,
    draw,
)

"""Which classes are forgotten: accuracy per class over rounds, within one round, and of one client."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.report.figures.common import (
    class_names,
    columns_for,
    of_run,
    round_slider,
    run_labels,
    whole_rounds,
)
from eunoe.report.theme import PALETTE, PANEL, Row, described, table

ACCURACY = alt.Scale(domain=[0, 1])


def _key() -> alt.Legend:
    return alt.Legend(title="accuracy", format=".0%", orient="bottom")


def per_class(rows: Sequence[Row]) -> Any:
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
            alt.Color("accuracy:Q", scale=ACCURACY, legend=_key()),
            tooltip=hover,
        )
        panels.append(chart.properties(width=1.5 * PANEL, height=max(PANEL, 9 * len(names)), title=label))
    text = f"Heat-map of accuracy per class over rounds for {', '.join(run_labels(rows))}. {_worst(rows)}"
    return described(
        alt.concat(*panels, columns=columns_for(len(panels)), spacing=24, data=table(rows)), text
    )


def _worst(rows: Sequence[Row]) -> str:
    words = []
    for label in run_labels(rows):
        last = max(row["round"] for row in rows if row["run"] == label)
        ends = [row for row in rows if row["run"] == label and row["round"] == last]
        low = min(ends, key=lambda row: row["accuracy"])
        words.append(f"{label} ends with {low['accuracy']:.1%} on class {low['class']}, its lowest")
    return f"{'; '.join(words)}."


def local_models(rows: Sequence[Row]) -> Any:
    """Per-class accuracy of all models of a chosen round (Flashback paper, figure 2)."""
    names = class_names(rows)
    order = alt.EncodingSortField("order", op="min")
    hover = [
        alt.Tooltip("model:N"),
        alt.Tooltip("class:N"),
        alt.Tooltip("accuracy:Q", format=".1%"),
        alt.Tooltip("labels:Q", title="train labels"),
        alt.Tooltip("round:Q"),
    ]
    panels = []
    for label in run_labels(rows):
        cells = alt.Chart().transform_filter(f"{of_run(label)} && datum.probe === probe")
        cells = cells.encode(
            alt.X("class:N", sort=names, title="class", axis=alt.Axis(labelAngle=0, grid=False)),
            alt.Y("model:N", sort=order, title=None, axis=alt.Axis(grid=False)),
        )
        filled = cells.mark_rect().encode(
            alt.Color("accuracy:Q", scale=ACCURACY, legend=_key()), tooltip=hover
        )
        held = cells.transform_filter("datum.labels > 0").mark_point(
            filled=True, size=14, color="white", stroke="black", strokeWidth=0.6, opacity=1
        )
        size = {"width": 1.3 * PANEL, "height": alt.Step(17)}
        panels.append(alt.layer(filled, held).properties(title=label, **size))
    chart = alt.concat(*panels, columns=columns_for(len(panels)), spacing=24, data=table(rows)).add_params(
        round_slider(rows)
    )
    chart = chart.resolve_scale(x="independent", y="independent")
    text = "Heat-map of accuracy per class of the model a round started from, of each client's trained model "
    return described(chart, text + f"and of the merged model, for {', '.join(run_labels(rows))}.")


def one_client(rows: Sequence[Row]) -> Any:
    """One client's per-class accuracy over time beside its label counts (Flashback paper, figure 8)."""
    names, client = class_names(rows), rows[0]["client"]
    axis = alt.Y("class:N", sort=names, title="class", axis=alt.Axis(grid=False))
    base = alt.Chart()
    seen = base.mark_rect().encode(
        alt.X("round:O", title="round of participation", axis=alt.Axis(labelAngle=0)),
        axis,
        alt.Color("accuracy:Q", scale=ACCURACY, legend=_key()),
        tooltip=["round:Q", "class:N", alt.Tooltip("accuracy:Q", format=".1%"), "labels:Q"],
    )
    held = base.mark_bar(color=PALETTE[0]).encode(
        alt.X("max(labels):Q", title="train labels"),
        alt.Y("class:N", sort=names, title=None, axis=alt.Axis(grid=False)),
        tooltip=["class:N", alt.Tooltip("max(labels):Q", title="train labels")],
    )
    size = max(PANEL, 9 * len(names))
    left = seen.properties(width=1.5 * PANEL, height=size, title=f"client {client}: accuracy of its model")
    right = held.properties(width=0.8 * PANEL, height=size, title="what its data hold")
    text = (
        f"Accuracy per class of client {client}'s model in each round it took part, beside its label counts."
    )
    return described(alt.concat(left, right, columns=2, spacing=24, data=table(rows)), text)

"""In which step knowledge is lost: local training or merge, in accuracy and in loss."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.report.figures.common import columns_for, hover_points, of_run, round_axis, run_labels
from eunoe.report.theme import PANEL, Row, described, run_color, table


def _mean(rows: Sequence[Row], label: str, step: str, field: str) -> float:
    values = [row[field] for row in rows if row["run"] == label and row["step"] == step]
    return 100 * float(sum(values)) / len(values)


def _steps() -> alt.Color:
    scale = alt.Scale(domain=["merge", "local training"], range="category")
    return alt.Color("step:N", scale=scale, legend=alt.Legend(title=None, orient="top", symbolOpacity=1))


def signed_parts(rows: Sequence[Row]) -> Any:
    """Signed account of each round's accuracy: taken away above zero, given back below; a panel per run."""
    hover = [
        alt.Tooltip("round:Q"),
        alt.Tooltip("step:N"),
        alt.Tooltip("signed:Q", title="taken away", format="+.1%"),
    ]
    high = max(0.0, *(row["signed"] for row in rows))
    low = min(0.0, *(row["signed"] for row in rows))
    panels = []
    for label in run_labels(rows):
        base = alt.Chart().transform_filter(of_run(label))
        base = base.encode(
            round_axis(),
            alt.Y(
                "signed:Q",
                title="accuracy taken away (+) or given back (−)",
                axis=alt.Axis(format="+%"),
                scale=alt.Scale(domain=[low, high]),
                stack=None,
            ),
            _steps(),
        )
        area = base.mark_area(opacity=0.25)
        line = base.mark_line(strokeWidth=1.5)
        points = hover_points(base, hover)
        panels.append(alt.layer(area, line, points).properties(width=1.5 * PANEL, height=PANEL, title=label))
    words = [
        f"{label}: local training {_mean(rows, label, 'local training', 'signed'):+.1f} points, merge "
        f"{_mean(rows, label, 'merge', 'signed'):+.1f}"
        for label in run_labels(rows)
    ]
    text = f"Accuracy taken away per round, mean over rounds. {'; '.join(words)}."
    return described(
        alt.concat(*panels, columns=columns_for(len(panels)), spacing=24, data=table(rows)), text
    )


def knowledge_lost(rows: Sequence[Row]) -> Any:
    """Knowledge lost by local training (L) and by the merge (G) over rounds, one panel per step."""
    hover = [
        alt.Tooltip("run:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("lost:Q", title="lost", format=".1%"),
    ]
    top = max(row["lost"] for row in rows)
    panels = []
    for step, title in (
        ("local training", "L: start model knew it, a client no longer does"),
        ("merge", "G: a client knew it, the merged model does not"),
    ):
        base = alt.Chart().transform_filter(f"datum.step === '{step}'")
        base = base.encode(
            round_axis(),
            alt.Y(
                "lost:Q",
                title="accuracy lost",
                axis=alt.Axis(format="%"),
                scale=alt.Scale(domain=[0, top]),
            ),
            run_color(run_labels(rows)),
        )
        points = hover_points(base, hover)
        panel = alt.layer(base.mark_line(), points)
        panels.append(
            panel.properties(width=1.5 * PANEL, height=PANEL, title=alt.Title(step, subtitle=title))
        )
    words = [
        f"{label}: {_mean(rows, label, 'local training', 'lost'):.1f} points locally, "
        f"{_mean(rows, label, 'merge', 'lost'):.1f} in the merge"
        for label in run_labels(rows)
    ]
    text = f"Knowledge lost per round, mean over rounds. {'; '.join(words)}."
    return described(
        alt.concat(*panels, columns=columns_for(len(panels)), spacing=24, data=table(rows)), text
    )


def saw_tooth(rows: Sequence[Row]) -> Any:
    """Loss from start to local models to merged model, round after round (Flashback paper, figure 5)."""
    labels = run_labels(rows)
    hover = [alt.Tooltip("round:Q"), alt.Tooltip("model:N"), alt.Tooltip("loss:Q", format=".3f")]
    low, high = min(row["loss"] for row in rows), max(row["loss"] for row in rows)
    shape = alt.Shape(
        "model:N",
        scale=alt.Scale(domain=["local models, mean", "merged model"], range=["triangle-up", "circle"]),
        legend=alt.Legend(title=None, orient="top", symbolFillColor="gray", symbolStrokeColor="gray"),
    )
    panels = []
    for label in labels:
        base = alt.Chart().transform_filter(of_run(label))
        base = base.encode(
            round_axis("at:Q"),
            alt.Y("loss:Q", title="loss on the test set", scale=alt.Scale(domain=[low, high], nice=True)),
            run_color(labels, legend=False),
        )
        line = base.mark_line(strokeWidth=1.2).encode(order="at:Q")
        ends = base.transform_filter("datum.model !== 'start model'")
        points = ends.mark_point(filled=True, size=26, opacity=0.9).encode(shape, tooltip=hover)
        panels.append(alt.layer(line, points).properties(width=1.5 * PANEL, height=PANEL, title=label))
    words = []
    for label in labels:
        mine = [row for row in rows if row["run"] == label]
        local = [row["loss"] for row in mine if row["model"].startswith("local")]
        merged = [row["loss"] for row in mine if row["model"].startswith("merged")]
        words.append(f"{label} {sum(local) / len(local):.2f} and {sum(merged) / len(merged):.2f}")
    text = f"Saw-tooth of loss. Mean loss of local models and of the merged model: {'; '.join(words)}."
    return described(
        alt.concat(*panels, columns=columns_for(len(panels)), spacing=24, data=table(rows)), text
    )

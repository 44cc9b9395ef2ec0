"""The account of every round: what local training takes away and aggregation gives back."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.report.figures.common import STEP, Kind, hover_points, in_panels, of_run, round_axis, run_labels
from eunoe.report.figures.steps import mean_of, parts
from eunoe.report.theme import PANEL, Row, described


def title(rows: Sequence[Row]) -> str:
    """What each step does to the accuracy, mean over the rounds, if it is the same in all runs."""
    words = [_does(rows, step) for step in ("local training", "merge")]
    return f"Local training {words[0]}, aggregation {words[1]}: the account of every round"


def _does(rows: Sequence[Row], step: str) -> str:
    taken = [mean_of(rows, label, step, "signed") for label in run_labels(rows)]
    if all(points > 0.05 for points in taken):
        return "takes accuracy away"
    if all(points < -0.05 for points in taken):
        return "gives accuracy back" if step == "merge" else "adds accuracy"
    return (
        "changes little"
        if all(abs(points) <= 0.05 for points in taken)
        else "does not do the same in all runs"
    )


def _steps() -> alt.Color:
    scale = alt.Scale(domain=["merge", "local training"], range="category")
    return alt.Color("step:N", scale=scale, legend=alt.Legend(title=None, orient="top", symbolOpacity=1))


def draw(rows: Sequence[Row]) -> Any:
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
        f"{label}: local training {mean_of(rows, label, 'local training', 'signed'):+.1f} points, merge "
        f"{mean_of(rows, label, 'merge', 'signed'):+.1f}"
        for label in run_labels(rows)
    ]
    text = f"Accuracy taken away per round, mean over rounds. {'; '.join(words)}."
    return described(in_panels(panels, rows), text)


FIGURE = Kind(
    "signed-parts",
    STEP,
    2,
    title,
    "Signed and exact: both parts add up to what the round lost. Mean over classes.",
    parts,
    draw,
)

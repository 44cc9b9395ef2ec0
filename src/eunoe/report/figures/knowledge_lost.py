"""How much knowledge each step drops, whatever is gained elsewhere."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.report.figures.common import STEP, Kind, always, hover_points, in_panels, round_axis, run_labels
from eunoe.report.figures.steps import mean_of, parts
from eunoe.report.theme import PANEL, Row, described, run_color


def draw(rows: Sequence[Row]) -> Any:
    """Knowledge lost by local training (L) and by aggregation (G) over rounds, one panel per step."""
    hover = [
        alt.Tooltip("run:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("lost:Q", title="lost", format=".1%"),
    ]
    top = max(row["lost"] for row in rows)
    panels = []
    for step, title in (
        ("local training", "L: start model knew it, a client no longer does"),
        ("merge", "G: a client knew it, the global model does not"),
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
        f"{label}: {mean_of(rows, label, 'local training', 'lost'):.1f} points locally, "
        f"{mean_of(rows, label, 'merge', 'lost'):.1f} in aggregation"
        for label in run_labels(rows)
    ]
    text = f"Knowledge lost per round, mean over rounds. {'; '.join(words)}."
    return described(in_panels(panels, rows), text)


FIGURE = Kind(
    "knowledge-lost",
    STEP,
    2,
    always("How much knowledge each step drops, whatever is gained elsewhere"),
    "L is the mean over clients and classes of what the start model knew and a client's model does not; "
    "G is the mean over classes of what the best client knew and the global model does not.",
    parts,
    draw,
)

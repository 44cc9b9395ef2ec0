"""What clients hold, how far their models drift, and in which classes their models believe."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.report.figures.common import hover_points, round_axis, run_labels
from eunoe.report.partition_figure import partition_figure
from eunoe.report.theme import HEIGHT, PANEL, WIDTH, Row, described, run_color, table


def partition(rows: Sequence[Row]) -> Any:
    """Each client's classes as stacked bars, one panel per partition."""
    clients = min(len(row["counts"]) for row in rows)
    panels = {row["run"]: row["counts"][:clients] for row in rows}
    # Different data share a legend, so their classes go by number.
    names = rows[0]["names"] if all(row["names"] == rows[0]["names"] for row in rows) else None
    return partition_figure(panels, range(clients), names, columns=1)


def drift(rows: Sequence[Row]) -> Any:
    """Distance of local models from the start and from each other, and cosine between updates."""
    labels, panels = run_labels(rows), []
    for field, title in (
        ("start", "distance from the start"),
        ("apart", "distance from each other"),
        ("cosine", "cosine between updates"),
    ):
        base = alt.Chart().transform_filter(f"isValid(datum.{field})")
        base = base.encode(
            round_axis(),
            alt.Y(f"{field}:Q", title=None, scale=alt.Scale(zero=True)),
            run_color(labels),
        )
        points = hover_points(
            base, ["run:N", "round:Q", alt.Tooltip(f"{field}:Q", title=title, format=".3f")]
        )
        panels.append(alt.layer(base.mark_line(), points).properties(width=PANEL, height=PANEL, title=title))
    words = []
    for label in labels:
        last = [row for row in rows if row["run"] == label][-1]
        words.append(
            f"{label}: {last['start']:.2f} from the start, {last['apart']:.2f} apart, "
            f"cosine {last['cosine']:.2f}"
        )
    text = f"Drift of local models over rounds; in the last probed round {'; '.join(words)}."
    return described(alt.concat(*panels, columns=3, spacing=24, data=table(rows)), text)


def probabilities(rows: Sequence[Row]) -> Any:
    """Mean output probability of a class against the share of its labels (Flashback paper, figure 9)."""
    hover = [
        alt.Tooltip("run:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("client:N"),
        alt.Tooltip("class:N"),
        alt.Tooltip("share:Q", title="share of labels", format=".0%"),
        alt.Tooltip("probability:Q", format=".1%"),
    ]
    chart = (
        alt.Chart(table(rows))
        .mark_circle(opacity=0.45, size=28)
        .encode(
            alt.X(
                "share:Q",
                title="labels of the class, as share of the most any client has",
                axis=alt.Axis(format="%"),
            ),
            alt.Y("probability:Q", title="mean output probability of the class", axis=alt.Axis(format="%")),
            run_color(run_labels(rows), symbol="circle"),
            tooltip=hover,
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
    return described(
        chart, "Scatter of a local model's mean probability of a class against its labels of that class."
    )

"""Curves of the global model: accuracy and round forgetting over rounds, and how the latter is spread."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.report.figures.common import hover_points, in_points, round_axis, run_labels
from eunoe.report.theme import Row, described, run_color, table


def _band_and_line(rows: Sequence[Row], title: str, zero: bool) -> Any:
    labels = run_labels(rows)
    base = alt.Chart(table(rows)).encode(round_axis())
    hover = [
        alt.Tooltip("run:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("mean:Q", title=title, format=".1%"),
        alt.Tooltip("low:Q", title="mean - deviation", format=".1%"),
        alt.Tooltip("high:Q", title="mean + deviation", format=".1%"),
        alt.Tooltip("seeds:Q"),
    ]
    height = alt.Y("mean:Q", title=title, axis=alt.Axis(format="%"), scale=alt.Scale(zero=zero))
    color = run_color(labels)
    layers = [
        base.mark_area(opacity=0.18).encode(alt.Y("low:Q", title=title), alt.Y2("high:Q"), color),
        base.mark_line().encode(height, color),
        hover_points(base.encode(height, color), hover),
    ]
    return alt.layer(*layers)


def accuracy(rows: Sequence[Row]) -> Any:
    """Mean accuracy over seeds per round, with a band of one standard deviation."""
    last = {row["run"]: row for row in rows}
    ends = "; ".join(f"{label} ends at {row['mean']:.1%}" for label, row in last.items())
    chart = _band_and_line(rows, "accuracy", zero=False)
    return described(chart, f"Line chart of accuracy over rounds. {ends}.")


def round_forgetting(rows: Sequence[Row]) -> Any:
    """Round forgetting F_t over rounds."""
    means, window = [], rows[0]["window"]
    for label in run_labels(rows):
        values = [row["mean"] for row in rows if row["run"] == label]
        means.append(f"{label} loses {in_points(values)} a round on average")
    title = "accuracy lost" if window == 1 else f"accuracy lost, mean of {window} rounds"
    chart = _band_and_line(rows, title, zero=True)
    return described(chart, f"Line chart of round forgetting. {'; '.join(means)}.")


def distribution(rows: Sequence[Row]) -> Any:
    """ECDF of round forgetting, as in the Flashback paper's figure 4."""
    halves = []
    for label in run_labels(rows):
        median = next(row["lost"] for row in rows if row["run"] == label and row["share"] >= 0.5)
        halves.append(f"in half of the rounds {label} loses at most {100 * median:.1f} points")
    lost = alt.X("lost:Q", title="accuracy lost in a round", axis=alt.Axis(format="%"))
    share = alt.Y("share:Q", title="share of rounds that lose at most this", axis=alt.Axis(format="%"))
    base = alt.Chart(table(rows)).encode(lost, share, run_color(run_labels(rows)))
    hover = [
        alt.Tooltip("run:N"),
        alt.Tooltip("lost:Q", title="lost at most", format=".1%"),
        alt.Tooltip("share:Q", title="share of rounds", format=".0%"),
    ]
    chart = alt.layer(base.mark_line(interpolate="step-after"), hover_points(base, hover))
    return described(chart, f"Distribution of round forgetting: {'; '.join(halves)}.")

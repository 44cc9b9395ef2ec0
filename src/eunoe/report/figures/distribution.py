"""How often rounds forget much: the distribution of F_t."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.metrics import forgetting
from eunoe.report.figures.common import ROUNDS, Kind, always, by_label, hover_points, run_labels
from eunoe.report.theme import MOST_POINTS, Row, described, run_color, table, thinned
from eunoe.store.run_records import RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """ECDF of F_t over all rounds and seeds of a label."""
    found = []
    for label, seeds in by_label(runs).items():
        values, share = forgetting.ecdf(np.concatenate([run.forgetting("round") for run in seeds]))
        points = list(zip(values.tolist(), share.tolist(), strict=True))
        found += [
            {"run": label, "lost": lost, "share": part} for lost, part in thinned(points, 2 * MOST_POINTS)
        ]
    return found


def draw(rows: Sequence[Row]) -> Any:
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


FIGURE = Kind(
    "distribution",
    ROUNDS,
    1,
    always("How often rounds forget much: the further left a line rises, the less is forgotten"),
    "Share of rounds (upwards) whose forgetting F_t is at most a value (rightwards).",
    rows,
    draw,
)

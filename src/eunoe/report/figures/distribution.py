"""Distribution of round forgetting F_t over rounds and seeds (Flashback paper, figure 4)."""

from collections.abc import Sequence

import altair as alt
import numpy as np

from eunoe.metrics import forgetting
from eunoe.report.figures import charts
from eunoe.report.figures.charts import Display, Figure, Kind
from eunoe.report.figures.series import Row, group_by_label, thin
from eunoe.report.theme import MOST_POINTS
from eunoe.store.run_records import RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return the ECDF of F_t over all rounds and seeds of a label."""
    rows = []
    for label, seeds in group_by_label(runs).items():
        values, shares = forgetting.ecdf(np.concatenate([run.forgetting("round") for run in seeds]))
        steps = thin(list(zip(values.tolist(), shares.tolist(), strict=True)), 2 * MOST_POINTS)
        rows += [{"run": label, "lost": lost, "share": share} for lost, share in steps]
    return rows


def draw(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the ECDF of each run as steps."""
    base = alt.Chart(charts.table(rows)).encode(
        alt.X("lost:Q", title=f"{display.task.unit_metric} lost in a round", axis=charts.PERCENT),
        alt.Y("share:Q", title="fraction of rounds that lose at most this", axis=charts.PERCENT),
        display.run_color(rows),
    )
    tips = ["run:N", charts.tip("lost", "lost at most"), charts.tip("share", "fraction of rounds", ".0%")]
    medians = {
        label: next(row["lost"] for row in own if row["share"] >= 0.5)
        for label, own in charts.by_run(rows).items()
    }
    words = [
        f"{label} loses at most {charts.points(lost)} in half of the rounds"
        for label, lost in medians.items()
    ]
    chart = alt.layer(base.mark_line(interpolate="step-after"), charts.hover_points(base, tips))
    return Figure(
        "Distribution of round forgetting: the further left a line rises, the less is forgotten",
        "Fraction of rounds whose forgetting F_t is at most the value on the horizontal axis.",
        chart.properties(description=f"Distribution of round forgetting: {'; '.join(words)}."),
        wide=False,
    )


KIND = Kind("distribution", rows, draw)

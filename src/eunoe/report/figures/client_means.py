"""Mean forgetting F_k of each client's model on other clients' data (WSM paper, figure 4)."""

from collections.abc import Sequence

import altair as alt
import numpy as np

from eunoe.metrics import forgetting
from eunoe.report.figures.charts import (
    PERCENT,
    Display,
    Figure,
    Kind,
    after_first_round,
    by_run,
    mean_of,
    points,
    round_axis,
    table,
    tip,
)
from eunoe.report.figures.series import Row, group_by_label, thin
from eunoe.report.theme import MOST_PROBES
from eunoe.store.run_records import RunRecords, numbers


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return F_k of each local model in every probed round, for all seeds."""
    rows = []
    for label, seeds in group_by_label(runs).items():
        for seed, run in enumerate(seeds):
            for record in thin(list(run.probe("client_matrix")), 2 * MOST_PROBES):
                lost = forgetting.client_forgetting(
                    numbers(record["start"]), numbers(record["after"]), record["models"], record["data"]
                )
                common = {"run": label, "seed": seed, "round": int(record["round"])}
                rows += [
                    {**common, "client": str(model), "lost": mean}
                    for model, mean in zip(record["models"], lost.by_model.tolist(), strict=True)
                    if not np.isnan(mean)
                ]
    return rows


def draw(rows: Sequence[Row], display: Display) -> Figure:
    """Draw a dot per client and a line of means."""
    metric, axis = display.task.client_metric, "forgotten on other clients' data"
    color = display.run_color(rows)
    base = alt.Chart(table(rows)).encode(round_axis())
    dots = base.mark_circle(opacity=0.3, size=24).encode(
        alt.Y("lost:Q", title=axis, axis=PERCENT),
        color,
        tooltip=["run:N", "round:Q", "client:N", tip("lost", "forgotten")],
    )
    means = base.mark_line(point=True).encode(
        alt.Y("mean(lost):Q", title=axis),
        color,
        tooltip=["run:N", "round:Q", tip("mean(lost)", "mean forgotten")],
    )
    groups = by_run(after_first_round(rows))
    words = "; ".join(f"{label} {points(mean_of(own, 'lost'))}" for label, own in groups.items())
    text = (
        f"Scatter plot of the {metric} on other clients' data lost by local training, per client and round; "
    )
    return Figure(
        "Forgetting between clients over the rounds",
        f"A dot per client's model: {metric} lost on other clients' data (F_k). The line is the mean.",
        alt.layer(dots, means).properties(description=f"{text}mean: {words}."),
        wide=False,
    )


KIND = Kind("client-means", rows, draw)

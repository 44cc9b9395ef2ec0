"""Forgetting between clients: local models on all clients' data, as matrices and as means F_k.

The means over the rounds are figure 4 of the WSM paper.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import groupby
from operator import itemgetter
from typing import Any

import altair as alt
import numpy as np

from eunoe.analysis.statistics import as_points
from eunoe.metrics import forgetting
from eunoe.report.figures import charts
from eunoe.report.figures.charts import Display, Figure, Kind
from eunoe.report.figures.series import Row, group_by_label, probed_rounds, thin
from eunoe.report.theme import MOST_CLIENTS, MOST_PROBES, PANEL
from eunoe.store.run_records import Record, RunRecords

# The column of means over all other clients' data.
MEAN = "F_k"
# Clients of the smallest matrix that is shown.
SMALLEST = 3


def matrix_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return each cell of the client forgetting matrix of each label's first seed, and the means F_k."""
    rounds = probed_rounds(runs, "client_matrix")
    return [
        {"run": label, "probe": rounds.index(number), "round": number, **cell}
        for label, seeds in group_by_label(runs).items()
        for record in seeds[0].probe("client_matrix")
        if (number := int(record["round"])) in rounds
        for cell in _cells(record)
    ]


def are_large(rows: Sequence[Row]) -> bool:
    """Return whether a matrix has enough clients to say more than the means do."""
    models = Counter((row["run"], row["probe"]) for row in rows if row["data"] == MEAN)
    return min(max(models.values(), default=0), len({row["data"] for row in rows} - {MEAN})) >= SMALLEST


def _lost(record: Record) -> forgetting.ClientForgetting:
    return forgetting.client_forgetting(record["start"], record["after"], record["models"], record["data"])


def _cells(record: Record) -> Iterator[Row]:
    start, after, models, lost = record["start"], record["after"], record["models"], _lost(record)
    shown = list(enumerate(models))[:MOST_CLIENTS]
    own = [model for _, model in shown]
    # The models' own data, and as many others as fit.
    own_first = sorted(enumerate(record["data"]), key=lambda column: column[1] not in own)
    for i, model in shown:
        for k, owner in sorted(own_first[: 2 * MOST_CLIENTS]):
            if not np.isnan(lost.matrix[i, k]):
                cell = {"model": str(model), "data": str(owner), "own": int(model == owner)}
                cell |= {"before": float(start[k]), "after": float(after[i][k])}
                yield cell | {"lost": float(lost.matrix[i, k])}
        if not np.isnan(lost.by_model[i]):
            cell = {"model": str(model), "data": MEAN, "own": 0, "before": None, "after": None}
            yield cell | {"lost": float(lost.by_model[i])}


def title(rows: Sequence[Row]) -> str:
    """State what training on one client costs on the others, over all rounds and runs."""
    means = [row for row in charts.after_first_round(rows) if row["data"] == MEAN]
    lost = charts.mean_of(means, "lost") if means else 0.0
    verb = "costs" if lost > 0.0005 else "adds" if lost < -0.0005 else "changes"
    amount = as_points(abs(lost)) if verb != "changes" else "nothing"
    return f"Training on one client {verb} {amount} on other clients' data (orange: forgotten, blue: learned)"


def draw_matrices(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the metric before and after training and the difference, a row of panels per run."""
    metric, labels = display.task.client_metric, list(charts.by_run(rows))
    limit = max(0.1, math.ceil(10 * max(abs(row["lost"]) for row in rows)) / 10)
    signed = alt.Scale(domain=[-limit, limit], domainMid=0, interpolate="rgb")
    by_panel = groupby(rows, key=itemgetter("run", "probe"))
    panels, columns = [], max(len({row["data"] for row in panel}) for _, panel in by_panel)
    for label in labels:
        for field, heading, scale, named in (
            ("before", "before local training", charts.SHARE, metric),
            ("after", "after local training", charts.SHARE, metric),
            ("lost", "forgotten", signed, f"{metric} lost"),
        ):
            key = alt.Legend(title=named, format=".0%", orient="bottom") if label == labels[-1] else None
            color = alt.Color(f"{field}:Q", scale=scale, legend=key)
            # Only the panel of what is forgotten has the column of means.
            axis = _column_axis(columns if field == "lost" else columns - 1)
            panel = _panel(label, field, color, axis)
            panels.append(panel.properties(title=alt.Title(label, subtitle=heading)))
    chart = alt.concat(*panels, columns=3, spacing={"row": 28, "column": 24}, data=charts.table(rows))
    chart = chart.add_params(charts.round_slider(rows)).resolve_scale(
        color="independent", x="independent", y="independent"
    )
    caption = (
        "Rows are clients' models, columns are clients' data; a client's own data are outlined. The last "
        "column, F_k, is the mean over all other clients' data, including those not shown. All runs share "
        "one color scale."
    )
    return Figure(title(rows), caption, chart)


def _column_axis(columns: int) -> alt.Axis:
    """Make an axis of clients with labels that fit: every n-th client, and always the last."""
    last, every = columns - 1, math.ceil(columns / 11)
    here = f"round(datum.index * {last})"
    written = f"{here} === {last} || {here} % {every} === 0 && {here} <= {last - every}"
    return alt.Axis(labelAngle=0, labelOverlap=False, labelExpr=f"{written} ? datum.label : ''", grid=False)


def _panel(label: str, field: str, color: alt.Color, axis: alt.Axis) -> Any:
    tips = [alt.Tooltip("model:N", title="model of client"), alt.Tooltip("data:N", title="data of client")]
    tips += [charts.tip("before"), charts.tip("after"), charts.tip("lost", "forgotten")]
    sort = partial(alt.EncodingSortField, op="min")
    # Clients sort by number, and the column of means comes last.
    cells = (
        alt.Chart()
        .transform_filter(f"{charts.run_filter(label)} && datum.probe === probe && isValid(datum.{field})")
        .transform_calculate(order="isNaN(+datum.data) ? 1e9 : +datum.data", row="+datum.model")
        .encode(
            alt.X("data:N", sort=sort("order"), title="data of client", axis=axis),
            alt.Y("model:N", sort=sort("row"), title="model of client", axis=charts.NO_GRID),
        )
    )
    own = cells.transform_filter("datum.own === 1").mark_rect(
        fill=None, stroke="currentColor", strokeWidth=1.5, strokeOpacity=0.75
    )
    shown = cells.mark_rect().encode(color, tooltip=[*tips, "round:Q"])
    return alt.layer(shown, own).properties(width=PANEL, height=PANEL)


def mean_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return F_k of each local model in every probed round, for all seeds."""
    rows = []
    for label, seeds in group_by_label(runs).items():
        for seed, run in enumerate(seeds):
            for record in thin(list(run.probe("client_matrix")), 2 * MOST_PROBES):
                common = {"run": label, "seed": seed, "round": int(record["round"])}
                rows += [
                    {**common, "client": str(model), "lost": mean}
                    for model, mean in zip(record["models"], _lost(record).by_model.tolist(), strict=True)
                    if not np.isnan(mean)
                ]
    return rows


def draw_means(rows: Sequence[Row], display: Display) -> Figure:
    """Draw a dot per client and a line of means."""
    metric, axis = display.task.client_metric, "forgotten on other clients' data"
    color = display.run_color(rows)
    base = alt.Chart(charts.table(rows)).encode(charts.round_axis())
    dots = base.mark_circle(opacity=0.3, size=24).encode(
        alt.Y("lost:Q", title=axis, axis=charts.PERCENT),
        color,
        tooltip=["run:N", "round:Q", "client:N", charts.tip("lost", "forgotten")],
    )
    means = base.mark_line(point=True).encode(
        alt.Y("mean(lost):Q", title=axis),
        color,
        tooltip=["run:N", "round:Q", charts.tip("mean(lost)", "mean forgotten")],
    )
    return Figure(
        "Forgetting between clients over the rounds",
        f"A dot per client's model: {metric} lost on other clients' data (F_k). The line is the mean.",
        alt.layer(dots, means),
        wide=False,
    )


MATRICES = Kind("client-matrices", matrix_rows, draw_matrices, are_large)
MEANS = Kind("client-means", mean_rows, draw_means, charts.over_rounds)

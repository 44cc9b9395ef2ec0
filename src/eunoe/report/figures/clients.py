"""Each client's metric on its own test data, in every run."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.analysis.by_client import ByClient
from eunoe.analysis.statistics import mean
from eunoe.errors import InputError
from eunoe.report.figures import charts
from eunoe.report.figures.charts import Display, Figure, Kind
from eunoe.report.figures.series import Row, group_by_label
from eunoe.report.theme import PANEL
from eunoe.store.run_records import RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return a row per run and client; none where nothing was recorded by client."""
    try:
        clients = ByClient(group_by_label(runs))
    except InputError:
        return []
    keys = sorted(clients.samples, key=lambda key: (key[0] or 0, key[1]))
    return [
        {"run": arm.title, "client": clients.name(key), "samples": clients.samples[key]}
        | {"accuracy": mean([*arm.values[key].values()]), "metric": clients.metric}
        for arm in clients.arms
        for key in keys
    ]


def draw(rows: Sequence[Row], display: Display) -> Figure:
    """Draw a dot per run on each client's line."""
    share = rows[0]["metric"] == "accuracy"
    metric, form = (display.task.client_metric, ".1%") if share else ("loss", ".3f")
    axis: dict[str, Any] = {"scale": charts.SHARE, "axis": charts.PERCENT} if share else {}
    tips = ["run:N", "client:N", "samples:Q", charts.tip("accuracy", metric, form)]
    chart = alt.Chart(charts.table(rows)).mark_point(filled=True, size=70, opacity=0.9)
    chart = chart.encode(
        alt.X("accuracy:Q", title=metric, **axis),
        alt.Y("client:N", sort=list(dict.fromkeys(row["client"] for row in rows)), title=None),
        display.run_color(rows),
        tooltip=tips,
    )
    worst, name = (min, "lowest") if share else (max, "highest")

    def describe(own: list[Row]) -> str:
        row = worst(own, key=lambda row: float(row["accuracy"]))
        return f"has its {name} for {row['client']} with {row['accuracy']:{form}}"

    first = [row["accuracy"] for row in rows if row["run"] == rows[0]["run"]]
    low, high = (f"{value:{'.0%' if share else '.2f'}}" for value in (min(first), max(first)))
    text = f"{charts.capitalize(metric)} of each client on its own test data; "
    text += f"{charts.describe_runs(rows, describe)}."
    return Figure(
        f"Clients' {metric} on their own test data: {low} to {high} with {rows[0]['run']}",
        "A dot per run: mean of the last rounds and of the seeds. If `local` is among the runs, it shows "
        "what a client reaches alone.",
        chart.properties(width=1.6 * PANEL, height=alt.Step(18), description=text),
    )


KIND = Kind("clients", rows, draw)

"""What each client has in every run, on its own test data."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.analysis.by_client import ByClient
from eunoe.analysis.statistics import mean
from eunoe.errors import InputError
from eunoe.report.figures.common import ACCURACY, SETTING, Kind, by_label, run_labels
from eunoe.report.theme import PANEL, Row, described, run_color, table
from eunoe.store.run_records import RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """A row per run and client; none where the accuracy by client was not recorded."""
    try:
        found = ByClient(by_label(runs))
    except InputError:
        return []
    return [
        {
            "run": arm.title,
            "client": found.name(key),
            "samples": size,
            "accuracy": mean([*arm.values[key].values()]),
            "metric": found.metric,
        }
        for arm in found.arms
        for key, size in sorted(found.samples.items(), key=lambda one: (one[0][0] or 0, one[0][1]))
    ]


def title(rows: Sequence[Row]) -> str:
    """How far apart the clients are in the first run."""
    first = [row["accuracy"] for row in rows if row["run"] == rows[0]["run"]]
    metric = rows[0]["metric"]
    form = ".0%" if metric == "accuracy" else ".2f"
    reach = f"{min(first):{form}} to {max(first):{form}} with {rows[0]['run']}"
    return f"Clients' {metric} on their own test data: {reach}"


def draw(rows: Sequence[Row]) -> Any:
    """A dot per run on each client's line."""
    labels, metric = run_labels(rows), rows[0]["metric"]
    share = metric == "accuracy"
    form = ".1%" if share else ".3f"
    axis: dict[str, Any] = {"scale": ACCURACY, "axis": alt.Axis(format="%")} if share else {}
    chart = alt.Chart(table(rows)).mark_point(filled=True, size=70, opacity=0.9)
    chart = chart.encode(
        alt.X("accuracy:Q", title=metric, **axis),
        alt.Y("client:N", sort=list(dict.fromkeys(row["client"] for row in rows)), title=None),
        run_color(labels),
        tooltip=["run:N", "client:N", "samples:Q", alt.Tooltip("accuracy:Q", title=metric, format=form)],
    )
    words = []
    for label in labels:
        worst = (min if share else max)(
            (row for row in rows if row["run"] == label), key=lambda row: float(row["accuracy"])
        )
        name = "lowest" if share else "highest"
        words.append(f"{label}: {name} {worst['client']} with {worst['accuracy']:{form}}")
    text = f"{metric.capitalize()} of each client on its own test data; {'; '.join(words)}."
    return described(chart.properties(width=1.6 * PANEL, height=alt.Step(18)), text)


FIGURE = Kind(
    "clients",
    SETTING,
    2,
    title,
    "A dot per run, mean of the last rounds and of the seeds. With `local` among the runs: what a client has "
    "alone and with the others.",
    rows,
    draw,
)

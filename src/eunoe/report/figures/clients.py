"""Figures of clients: output probabilities, drift, accuracy on their own tests; and costs of runs."""

from collections.abc import Iterator, Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.analysis.by_client import ByClient
from eunoe.analysis.statistics import mean
from eunoe.errors import InputError
from eunoe.metrics import forgetting
from eunoe.report.figures import charts
from eunoe.report.figures.charts import Display, Figure, Kind
from eunoe.report.figures.series import Row, group_by_label, probe_means, thin
from eunoe.report.theme import HEIGHT, MOST_CELLS, MOST_CLIENTS, MOST_PROBES, PANEL, STEP_COLORS, WIDTH
from eunoe.store.run_records import Record, RunRecords, numbers

# Title and caption of the panel of each number.
DRIFT_PANELS = {
    "start": ("distance from the start model", "mean distance from the start model"),
    "apart": ("distance from each other", "root mean square distance between two clients"),
    "cosine": (
        "cosine between updates",
        "mean cosine between two clients' updates (1: same direction, 0: unrelated)",
    ),
}


def probability_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return probability and label share per local model and class, of each label's first seed."""
    rows = []
    for label, (run, *_) in group_by_label(runs).items():
        for record in thin(list(run.probe("probability")), MOST_PROBES):
            most = None if run.label_counts is None else run.label_counts.max(axis=0)
            shares = forgetting.count_shares(numbers(record["counts"]), most)
            names, probabilities = run.names(shares.shape[1]), numbers(record["probability"])
            for i, client in list(enumerate(record["clients"]))[:MOST_CLIENTS]:
                common = {"run": label, "round": int(record["round"]), "client": str(client)}
                rows += [
                    {**common, "class": name, "share": share, "probability": probability}
                    for name, share, probability in zip(
                        names, shares[i].tolist(), probabilities[i].tolist(), strict=True
                    )
                    if not np.isnan(share + probability)
                ]
    return thin(rows, MOST_CELLS // 8)


def probability_title(rows: Sequence[Row], display: Display) -> str:
    """State the mean probability of classes that a client has, and of those that it lacks."""
    held, absent = [row for row in rows if row["share"] > 0], [row for row in rows if row["share"] == 0]
    if not held or not absent:
        return f"Output probability of each {display.task.unit} by its label count"
    has, lacks = (f"{charts.mean_of(part, 'probability'):.0%}" for part in (held, absent))
    return (
        f"Local models predict a {display.task.unit} that their client has with a mean probability of {has}, "
        f"one that it lacks with {lacks}"
    )


def draw_probability(rows: Sequence[Row], display: Display) -> Figure:
    """Draw a dot per local model and class."""
    unit = display.task.unit
    tips = ["run:N", "round:Q", "client:N", alt.Tooltip("class:N", title=unit)]
    tips += [charts.tip("share", "share of labels", ".0%"), charts.tip("probability")]
    chart = alt.Chart(charts.table(rows)).mark_circle(opacity=0.45, size=28)
    chart = chart.encode(
        alt.X(
            "share:Q", title=f"labels of the {unit}, relative to the most of any client", axis=charts.PERCENT
        ),
        alt.Y("probability:Q", title=f"mean output probability of the {unit}", axis=charts.PERCENT),
        display.run_color(rows, symbol="circle"),
        tooltip=tips,
    )
    return Figure(
        probability_title(rows, display),
        f"Mean output probability of a {unit} on the public data, per local model, by its label count.",
        chart.properties(width=WIDTH, height=HEIGHT),
        wide=False,
    )


def drift_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return distances and cosine, mean over seeds, per probed round."""
    return [
        {"run": label, "round": number, "start": start, "apart": apart, "cosine": cosine}
        for label, number, (start, apart, cosine) in probe_means(runs, "drift", _measure)
    ]


def _measure(probe: Record) -> list[float]:
    mean = forgetting.known_mean(numbers(probe["from_start"]))
    return [mean, *numbers([probe["apart"], probe["cosine"]]).tolist()]


def draw_drift(rows: Sequence[Row], display: Display) -> Figure:
    """Draw a panel per number."""
    # A round of one client has no distances between clients.
    fields = [field for field in DRIFT_PANELS if not np.isnan(rows[-1][field])]
    panels, captions, width = [], [], PANEL if len(fields) > 1 else 2 * PANEL
    for field in fields:
        title, caption = DRIFT_PANELS[field]
        base = alt.Chart().transform_filter(f"isValid(datum.{field})")
        height = alt.Y(f"{field}:Q", title=None, scale=alt.Scale(zero=True))
        base = base.encode(charts.round_axis(), height, display.run_color(rows))
        panel = charts.line(base, ["run:N", "round:Q", charts.tip(field, title, ".3f")])
        panels.append(panel.properties(width=width, height=PANEL, title=title))
        captions.append(caption)
    return Figure(
        "Drift of local models",
        f"{charts.capitalize(', '.join(captions))}.",
        charts.side_by_side(panels, rows, columns=len(panels)),
    )


def client_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return a row per run and client; none where nothing was recorded by client."""
    try:
        clients = ByClient(group_by_label(runs))
    except InputError:
        return []
    return [
        {"run": title, "client": name, "samples": samples}
        | {"accuracy": mean([*values[name].values()]), "metric": clients.metric}
        for title, values in clients.arms.items()
        for name, samples in clients.samples.items()
    ]


def draw_client(rows: Sequence[Row], display: Display) -> Figure:
    """Draw a dot per run on each client's line."""
    share = rows[0]["metric"] == "accuracy"
    metric, form = (display.task.client_metric, ".1%") if share else ("loss", ".3f")
    axis: dict[str, Any] = {"scale": charts.SHARE, "axis": charts.PERCENT} if share else {}
    tips = ["run:N", "client:N", "samples:Q", charts.tip("accuracy", metric, form)]
    chart = alt.Chart(charts.table(rows)).mark_point(filled=True, size=70, opacity=0.9)
    chart = chart.encode(
        alt.X("accuracy:Q", title=metric, **axis),
        alt.Y("client:N", sort=list(dict.fromkeys(row["client"] for row in rows)), title=None),
        display.run_color(rows, symbol="circle"),
        tooltip=tips,
    )
    first = [row["accuracy"] for row in rows if row["run"] == rows[0]["run"]]
    low, high = (f"{value:{'.0%' if share else '.2f'}}" for value in (min(first), max(first)))
    return Figure(
        f"Clients' {metric} on their own test data: {low} to {high} with {rows[0]['run']}",
        "A dot per run: mean of the last rounds and of the seeds. If `local` is among the runs, it shows "
        "what a client reaches alone.",
        chart.properties(width=1.6 * PANEL, height=alt.Step(18)),
    )


def cost_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return bytes and seconds by kind, mean over seeds; unrecorded ones are omitted."""
    rows = []
    for label, seeds in group_by_label(runs).items():
        sums: dict[tuple[str, str], float] = {}
        for unit, kind, total in (cost for run in seeds for cost in _costs(run)):
            sums[unit, kind] = sums.get((unit, kind), 0.0) + total / len(seeds)
        rows += [{"run": label, "unit": u, "kind": k, "amount": total} for (u, k), total in sums.items()]
    return rows


def _costs(run: RunRecords) -> Iterator[tuple[str, str, float]]:
    columns = [("bytes", kind, run.known(f"bytes_{kind}")[1]) for kind in ("up", "down")]
    columns += [
        ("seconds", kind, [timing[kind] for timing in run.timings if timing.get(kind) is not None])
        for kind in dict.fromkeys(key for timing in run.timings for key in timing)
        if kind not in ("round", "schema", "moved")
    ]
    yield from ((unit, kind, float(np.sum(values))) for unit, kind, values in columns if len(values))


def draw_cost(rows: Sequence[Row], display: Display) -> Figure:
    """Draw bars per run, split by kind."""
    panels = []
    for unit, form, axis in (("seconds", ",.1f", ","), ("bytes", ".3s", "~s")):
        costs = [row for row in rows if row["unit"] == unit]
        if not costs:
            continue
        kinds = list(dict.fromkeys(row["kind"] for row in costs))
        chart = alt.Chart().transform_filter(f"datum.unit === '{unit}'").mark_bar()
        chart = chart.encode(
            alt.X("amount:Q", title=unit, axis=alt.Axis(format=axis, tickCount=5)),
            alt.Y("run:N", sort=list(charts.by_run(rows)), title=None, axis=alt.Axis(labelLimit=200)),
            alt.Color(
                "kind:N",
                scale=alt.Scale(domain=kinds, range=STEP_COLORS[: len(kinds)]),
                legend=alt.Legend(title=None, orient="top"),
            ),
            tooltip=["run:N", "kind:N", charts.tip("amount", unit, form)],
        )
        panels.append(chart.properties(width=1.3 * PANEL, height=alt.Step(26), title=f"{unit}, whole run"))
    chart = charts.side_by_side(panels, rows, columns=2).resolve_scale(color="independent")
    return Figure(
        "Time and traffic", "Seconds by step and bytes by direction of the whole run, mean over seeds.", chart
    )


PROBABILITIES = Kind("probabilities", probability_rows, draw_probability)
DRIFT = Kind("drift", drift_rows, draw_drift, charts.over_rounds)
CLIENTS = Kind("clients", client_rows, draw_client)
COSTS = Kind("costs", cost_rows, draw_cost)

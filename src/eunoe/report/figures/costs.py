"""Seconds by step and bytes by direction of a whole run."""

from collections.abc import Iterator, Sequence

import altair as alt
import numpy as np

from eunoe.report.figures.charts import Display, Figure, Kind, by_run, describe_runs, side_by_side, tip
from eunoe.report.figures.series import Row, group_by_label
from eunoe.report.theme import PANEL
from eunoe.store.run_records import RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return bytes and seconds by kind, mean over seeds; unrecorded ones are omitted."""
    rows = []
    for label, seeds in group_by_label(runs).items():
        sums: dict[tuple[str, str], float] = {}
        for unit, kind, total in (cost for run in seeds for cost in _costs(run)):
            sums[unit, kind] = sums.get((unit, kind), 0.0) + total / len(seeds)
        rows += [
            {"run": label, "unit": unit, "kind": kind, "amount": total}
            for (unit, kind), total in sums.items()
        ]
    return rows


def _costs(run: RunRecords) -> Iterator[tuple[str, str, float]]:
    columns = [("bytes", kind, run.known(f"bytes_{kind}")[1]) for kind in ("up", "down")]
    columns += [
        ("seconds", kind, [timing[kind] for timing in run.timings if timing.get(kind) is not None])
        for kind in dict.fromkeys(key for timing in run.timings for key in timing)
        if kind not in ("round", "schema", "moved")
    ]
    yield from ((unit, kind, float(np.sum(values))) for unit, kind, values in columns if len(values))


def _total(rows: Sequence[Row]) -> str:
    return f"{sum(row['amount'] for row in rows):,.0f}"


def draw(rows: Sequence[Row], display: Display) -> Figure:
    """Draw bars per run, split by kind."""
    panels, words = [], []
    for unit, form in (("seconds", ",.1f"), ("bytes", ".3s")):
        costs = [row for row in rows if row["unit"] == unit]
        if not costs:
            continue
        kinds = list(dict.fromkeys(row["kind"] for row in costs))
        chart = alt.Chart().transform_filter(f"datum.unit === '{unit}'").mark_bar()
        chart = chart.encode(
            alt.X("amount:Q", title=unit, axis=alt.Axis(format="~s", tickCount=5)),
            alt.Y("run:N", sort=list(by_run(rows)), title=None, axis=alt.Axis(labelLimit=160)),
            alt.Color(
                "kind:N",
                scale=alt.Scale(domain=kinds, range="category"),
                legend=alt.Legend(title=None, orient="top"),
            ),
            tooltip=["run:N", "kind:N", tip("amount", unit, form)],
        )
        panels.append(chart.properties(width=1.3 * PANEL, height=alt.Step(26), title=f"{unit}, whole run"))
        words.append(f"{unit}: {describe_runs(costs, _total)}")
    chart = side_by_side(panels, rows, columns=2).resolve_scale(color="independent")
    return Figure(
        "Time and traffic",
        "Seconds by step and bytes by direction of the whole run, mean over seeds.",
        chart.properties(description=f"Bars of the costs of each run: {'; '.join(words)}."),
    )


KIND = Kind("costs", rows, draw)

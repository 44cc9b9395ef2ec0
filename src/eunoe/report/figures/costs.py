"""What a run costs: seconds by step and bytes by direction."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.report.figures.common import SETTING, Kind, always, by_label, in_panels, run_labels
from eunoe.report.theme import PANEL, Row, described
from eunoe.store.run_records import RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Bytes and seconds of a whole run by kind, mean over seeds; unrecorded ones are omitted."""
    found = []
    for label, seeds in by_label(runs).items():
        aggregate: dict[tuple[str, str], float] = {}
        for run in seeds:
            for name, kind in (("bytes_up", "up"), ("bytes_down", "down")):
                _add(aggregate, ("bytes", kind), run.known(name)[1], len(seeds))
            for kind in dict.fromkeys(key for timing in run.timings for key in timing):
                if kind not in ("round", "schema", "moved"):
                    seconds = [timing[kind] for timing in run.timings if timing.get(kind) is not None]
                    _add(aggregate, ("seconds", kind), seconds, len(seeds))
        found += [
            {"run": label, "unit": unit, "kind": kind, "amount": total}
            for (unit, kind), total in aggregate.items()
        ]
    return found


def _add(
    aggregate: dict[tuple[str, str], float], key: tuple[str, str], values: Sequence[float], seeds: int
) -> None:
    if len(values):
        aggregate[key] = aggregate.get(key, 0.0) + float(np.sum(values)) / seeds


def draw(rows: Sequence[Row]) -> Any:
    """Bars of seconds and bytes per run, split by kind."""
    labels = run_labels(rows)
    panels, words = [], []
    for unit, number in (("seconds", ",.1f"), ("bytes", ".3s")):
        mine = [row for row in rows if row["unit"] == unit]
        if not mine:
            continue
        kinds = list(dict.fromkeys(row["kind"] for row in mine))
        chart = alt.Chart().transform_filter(f"datum.unit === '{unit}'").mark_bar()
        chart = chart.encode(
            alt.X("amount:Q", title=unit, axis=alt.Axis(format="~s", tickCount=5)),
            alt.Y("run:N", sort=labels, title=None, axis=alt.Axis(labelLimit=160)),
            alt.Color(
                "kind:N",
                scale=alt.Scale(domain=kinds, range="category"),
                legend=alt.Legend(title=None, orient="top"),
            ),
            tooltip=["run:N", "kind:N", alt.Tooltip("amount:Q", title=unit, format=number)],
        )
        panels.append(chart.properties(width=1.3 * PANEL, height=alt.Step(26), title=f"{unit}, whole run"))
        for label in labels:
            total = sum(row["amount"] for row in mine if row["run"] == label)
            words.append(f"{label} {total:,.0f} {unit}")
    chart = in_panels(panels, rows, columns=2).resolve_scale(color="independent")
    return described(chart, f"Bars of the costs of each run: {'; '.join(words)}.")


FIGURE = Kind(
    "costs",
    SETTING,
    2,
    always("What it costs"),
    "Seconds by step and bytes by direction, whole run, mean over seeds.",
    rows,
    draw,
)

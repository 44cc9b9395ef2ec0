"""The phases of a stream: a strip above a curve, and a dashed line where each begins."""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import altair as alt

from eunoe.report.theme import Row, table

# Pixels above the curve between which the strip lies.
TOP, BOTTOM = -16, -4


def phase_strip(rows: Sequence[Row]) -> list[Any]:
    """Layers for a curve over rounds; none without a stream.

    Rows name the first round of their phase. Runs whose phases differ have lines only.
    """
    begun: dict[str, set[int]] = {}
    for row in rows:
        if row.get("began", 1) > 1:
            begun.setdefault(row["run"], set()).add(row["began"])
    if not begun:
        return []
    begin = sorted(set().union(*begun.values()))
    lines = alt.Chart(table([{"round": first} for first in begin]))
    layers = [lines.mark_rule(strokeDash=[3, 3], opacity=0.5).encode(alt.X("round:Q"))]
    if any(starts != set(begin) for starts in begun.values()):
        return layers
    last = max(row["round"] for row in rows)
    ends = [min(1, *(row["round"] for row in rows)), *begin, max(last, begin[-1] + 1)]
    phases = [
        {
            "phase": f"phase {number}",
            "round": first,
            "until": until,
            "middle": (first + until) / 2,
            "even": number % 2,
        }
        for number, (first, until) in enumerate(pairwise(ends), start=1)
    ]
    strip = alt.Chart(table(phases))
    hover = [alt.Tooltip("phase:N"), alt.Tooltip("round:Q", title="from round")]
    place = {"y": alt.value(TOP), "y2": alt.value(BOTTOM)}
    bars = strip.mark_rect(color="#888888").encode(
        alt.X("round:Q"),
        alt.X2("until:Q"),
        opacity=alt.Opacity("even:N", scale=alt.Scale(domain=[0, 1], range=[0.2, 0.4]), legend=None),
        tooltip=hover,
        **place,
    )
    # Of many phases the numbers would cover one another.
    words = strip.mark_text(fontSize=10).encode(
        alt.X("middle:Q"),
        y=alt.value((TOP + BOTTOM) / 2),
        text=alt.Text("phase:N") if len(phases) <= 6 else alt.value(""),
    )
    return [*layers, bars, words]

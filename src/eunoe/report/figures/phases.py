"""What each phase of a stream cost: accuracy on old and new classes at its end."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.records.reader import RunRecords
from eunoe.records.statistics import deviation, mean
from eunoe.report.figures.common import (
    ACCURACY,
    ROUNDS,
    Kind,
    always,
    by_label,
    in_panels,
    of_run,
    run_labels,
)
from eunoe.report.theme import PANEL, Row, described

PARTS = {
    "past": "classes of earlier phases",
    "present": "classes of this phase",
    "seen": "all so far",
}


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Accuracy by group of classes at the end of each phase, mean over seeds."""
    found = list[Row]()
    for label, seeds in by_label(runs).items():
        ends = [_ends(run) for run in seeds]
        for phase in sorted({phase for one in ends for phase in one}):
            for part, title in PARTS.items():
                values = [one[phase][part] for one in ends if part in one.get(phase, {})]
                if values:
                    found.append(
                        {
                            "run": label,
                            "phase": phase,
                            "part": title,
                            "accuracy": mean(values),
                            "deviation": deviation(values),
                            "seeds": len(values),
                        }
                    )
    return found


def _ends(run: RunRecords) -> dict[int, dict[str, Any]]:
    """The numbers of the last evaluated round of each phase."""
    found: dict[int, dict[str, Any]] = {}
    for record in run.metrics:
        numbers = record.get("phases")
        if numbers and "present" in numbers:
            found[int(numbers["phase"])] = {k: v for k, v in numbers.items() if v is not None}
    return found


def draw(rows: Sequence[Row]) -> Any:
    """Bars of accuracy by phase, one panel per run."""
    hover = [
        alt.Tooltip("run:N"),
        alt.Tooltip("phase:O"),
        alt.Tooltip("part:N"),
        alt.Tooltip("accuracy:Q", format=".1%"),
        alt.Tooltip("deviation:Q", format=".1%"),
        alt.Tooltip("seeds:Q"),
    ]
    order = list(PARTS.values())
    panels = []
    for label in run_labels(rows):
        chart = alt.Chart().transform_filter(of_run(label)).mark_bar()
        chart = chart.encode(
            alt.X("phase:O", title="phase", axis=alt.Axis(labelAngle=0)),
            alt.XOffset("part:N", sort=order),
            alt.Y("accuracy:Q", scale=ACCURACY, axis=alt.Axis(format="%")),
            alt.Color("part:N", sort=order, legend=alt.Legend(title=None, orient="bottom")),
            tooltip=hover,
        )
        panels.append(chart.properties(width=1.5 * PANEL, height=PANEL, title=label))
    last = max(row["phase"] for row in rows)
    ends = [
        f"{row['run']} keeps {row['accuracy']:.1%} on classes of earlier phases"
        for row in rows
        if row["phase"] == last and row["part"] == PARTS["past"]
    ]
    return described(in_panels(panels, rows), f"Bars of accuracy by phase. {'; '.join(ends)}.")


FIGURE = Kind(
    "phases",
    ROUNDS,
    2,
    always("What each phase cost: classes of earlier phases beside those that came with it"),
    "Accuracy of the global model at the end of each phase of the stream, mean over seeds.",
    rows,
    draw,
)

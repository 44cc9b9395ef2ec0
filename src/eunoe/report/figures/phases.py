"""What each phase of a stream cost: accuracy on old and new classes at its end, or before and after it."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.analysis.data_changes import phase_starts
from eunoe.analysis.statistics import deviation, mean
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
from eunoe.store.run_records import RunRecords

# Of a stream of classes; of any other.
BY_CLASS = {
    "past": "classes of earlier phases",
    "present": "classes of this phase",
    "seen": "all so far",
}
BY_ROUND = {"before": "before it began", "lowest": "lowest in it", "end": "at its end"}
PARTS = {**BY_CLASS, **BY_ROUND}


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Accuracy by group of classes at the end of each phase, or around each phase, mean over seeds."""
    found = list[Row]()
    for label, seeds in by_label(runs).items():
        each = [_by_class(run) or _by_round(run) for run in seeds]
        for phase in sorted({phase for one in each for phase in one}):
            for part, title in PARTS.items():
                values = [one[phase][part] for one in each if part in one.get(phase, {})]
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


def _by_class(run: RunRecords) -> dict[int, dict[str, Any]]:
    """The numbers of the last evaluated round of each phase, where classes come in phases."""
    measured = [record["phases"] for record in run.metrics if "present" in (record.get("phases") or {})]
    numbers = {int(one["phase"]): one for one in measured if one.get("phase") is not None}
    return {phase: {k: v for k, v in one.items() if v is not None} for phase, one in numbers.items()}


def _by_round(run: RunRecords) -> dict[int, dict[str, Any]]:
    """The accuracy before, in and at the end of each phase, where there is more than one."""
    starts, curve = phase_starts(run), run.curve("accuracy")
    phases = np.searchsorted(starts, run.rounds, side="right") + 1
    found: dict[int, dict[str, Any]] = {}
    for phase in sorted(set(phases.tolist())) if starts else ():
        inside, before = curve[phases == phase], curve[phases < phase]
        found[phase] = {"end": float(inside[-1])}
        if len(before):
            found[phase] |= {"before": float(before[-1]), "lowest": float(inside.min())}
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
    order = [title for title in PARTS.values() if any(row["part"] == title for row in rows)]
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
        f"{row['run']} has {row['accuracy']:.1%} in the last phase ({row['part']})"
        for row in rows
        if row["phase"] == last and row["part"] in (PARTS["past"], PARTS["end"])
    ]
    return described(
        in_panels(panels, rows).resolve_scale(xOffset="independent"),
        f"Bars of accuracy by phase. {'; '.join(ends)}.",
    )


FIGURE = Kind(
    "phases",
    ROUNDS,
    2,
    always("What each phase cost"),
    "Accuracy of the global model, mean over seeds. Where classes come in phases: at the end of each, on "
    "classes of earlier phases and on those that came with it. Otherwise: before, in and at the end of each.",
    rows,
    draw,
)

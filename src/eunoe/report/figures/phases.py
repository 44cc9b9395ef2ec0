"""Accuracy by phase of a stream: on old and new classes at its end, or before, during and after it."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.analysis.statistics import deviation, mean
from eunoe.analysis.summary import phase_starts
from eunoe.report.figures.charts import PERCENT, SHARE, Display, Figure, Kind, panel_per_run, tip
from eunoe.report.figures.series import Row, group_by_label
from eunoe.store.run_records import RunRecords

# The first three for a stream of classes, the others for any other stream.
PARTS = {
    "past": "classes of earlier phases",
    "present": "classes of this phase",
    "seen": "all classes so far",
    "before": "before the phase",
    "lowest": "lowest in the phase",
    "end": "at its end",
}


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return the mean over seeds by label, phase and part."""
    rows = list[Row]()
    for label, seeds in group_by_label(runs).items():
        phases = [_by_class(run) or _by_round(run) for run in seeds]
        for phase in sorted({phase for own in phases for phase in own}):
            for part, title in PARTS.items():
                values = [own[phase][part] for own in phases if part in own.get(phase, {})]
                if values:
                    numbers = {"accuracy": mean(values), "deviation": deviation(values), "seeds": len(values)}
                    rows.append({"run": label, "phase": phase, "part": title, **numbers})
    return rows


def _by_class(run: RunRecords) -> dict[int, dict[str, Any]]:
    """Return the numbers of the last evaluated round of each phase of a stream of classes."""
    measured = [record["phases"] for record in run.metrics if "present" in (record.get("phases") or {})]
    numbers = {int(phases["phase"]): phases for phases in measured if phases.get("phase") is not None}
    return {phase: {k: v for k, v in own.items() if v is not None} for phase, own in numbers.items()}


def _by_round(run: RunRecords) -> dict[int, dict[str, Any]]:
    """Return the main metric before, during and at the end of each phase, if there are several."""
    starts, curve = phase_starts(run), run.curve(run.task.metric)
    phase_of = np.searchsorted(starts, run.rounds, side="right") + 1
    phases: dict[int, dict[str, Any]] = {}
    for phase in sorted(set(phase_of.tolist())) if starts else ():
        inside, before = curve[phase_of == phase], curve[phase_of < phase]
        phases[phase] = {"end": float(inside[-1])}
        if len(before):
            phases[phase] |= {"before": float(before[-1]), "lowest": float(inside.min())}
    return phases


def draw(rows: Sequence[Row], display: Display) -> Figure:
    """Draw bars by phase, one panel per run."""
    metric = display.task.title
    order = [title for title in PARTS.values() if any(row["part"] == title for row in rows)]
    tips = ["run:N", "phase:O", "part:N", tip("accuracy", metric), tip("deviation"), "seeds:Q"]

    def panel(base: Any) -> Any:
        return base.mark_bar().encode(
            alt.X("phase:O", title="phase", axis=alt.Axis(labelAngle=0)),
            alt.XOffset("part:N", sort=order),
            alt.Y("accuracy:Q", title=metric, scale=SHARE, axis=PERCENT),
            alt.Color("part:N", sort=order, legend=alt.Legend(title=None, orient="bottom")),
            tooltip=tips,
        )

    last = max(row["phase"] for row in rows)
    ends = [
        f"{row['run']} has {row['accuracy']:.1%} in the last phase ({row['part']})"
        for row in rows
        if row["phase"] == last and row["part"] in (PARTS["past"], PARTS["end"])
    ]
    chart = panel_per_run(rows, panel).resolve_scale(xOffset="independent")
    return Figure(
        f"Cost of each phase in {metric}",
        "Global model, mean over seeds. For a stream of classes: at the end of each phase, on classes of "
        "earlier phases and on those of the phase. For other streams: before, in and at the end of each.",
        chart.properties(description=f"Bars of {metric} by phase. {'; '.join(ends)}."),
    )


KIND = Kind("phases", rows, draw)

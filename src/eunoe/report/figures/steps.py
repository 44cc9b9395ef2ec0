"""Effect of local training and aggregation: signed changes, knowledge lost, and loss within a round."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.metrics import forgetting
from eunoe.report.figures import charts
from eunoe.report.figures.charts import Display, Figure, Kind
from eunoe.report.figures.series import Row, group_by_label, probe_means, thin
from eunoe.report.theme import MOST_POINTS, PANEL, STEP_COLORS
from eunoe.store.run_records import Record, RunRecords, numbers

LOCAL, AGGREGATION = "local training", "aggregation"
START_MODEL, LOCAL_MODELS, GLOBAL_MODEL = "start model", "local models, mean", "global model"


def step_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return signed change and knowledge lost, mean over classes and seeds, per probed round and step."""
    return [
        {"run": label, "round": number, "step": step, "signed": signed, "lost": lost}
        for label, number, means in probe_means(runs, "local_per_class", _measure)
        for step, signed, lost in ((LOCAL, *means[:2]), (AGGREGATION, *means[2:]))
    ]


def _measure(probe: Record) -> tuple[float, float, float, float]:
    models = probe["start"], probe["local"], probe["merged"]
    signed, lost = forgetting.accounting(*models), forgetting.knowledge_lost(*models)
    local, aggregation = forgetting.known_mean(signed.local), forgetting.known_mean(signed.aggregation)
    return local, lost.local, aggregation, lost.aggregation


def draw_signed(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the signed change of each step, losses above zero, one panel per run."""
    metric, values = display.task.unit_metric, [0.0, *(row["signed"] for row in rows)]
    tips = ["round:Q", "step:N", charts.tip("signed", "lost", "+.1%")]
    steps = alt.Scale(domain=[AGGREGATION, LOCAL], range=STEP_COLORS[:2])
    color = alt.Color("step:N", scale=steps, legend=alt.Legend(title=None, orient="top", symbolOpacity=1))
    axis, scale = alt.Axis(format="+%"), alt.Scale(domain=[min(values), max(values)])
    height = alt.Y("signed:Q", title=f"{metric} lost (+) or gained (−)", axis=axis, scale=scale, stack=None)

    def panel(base: Any) -> Any:
        base = base.encode(charts.round_axis(), height, color)
        area, line = base.mark_area(opacity=0.25), base.mark_line(strokeWidth=1.5)
        return alt.layer(area, line, charts.hover_points(base, tips))

    return Figure(
        f"Change of {metric} by local training and by aggregation",
        f"Signed change of {metric} in each step, mean over {display.task.units}. Both steps add up to "
        "the change of the round.",
        charts.panel_per_run(rows, panel),
    )


def draw_lost(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the knowledge lost by local training (L) and by aggregation (G), one panel per step."""
    metric, units, panels = display.task.unit_metric, display.task.units, []
    scale = alt.Scale(domain=[0, max(row["lost"] for row in rows)])
    height = alt.Y("lost:Q", title=f"{metric} lost", axis=charts.PERCENT, scale=scale)
    for step, subtitle in (
        (LOCAL, "L: known to the start model, not to a client's model"),
        (AGGREGATION, "G: known to a client's model, not to the global model"),
    ):
        base = alt.Chart().transform_filter(f"datum.step === '{step}'")
        base = base.encode(charts.round_axis(), height, display.run_color(rows))
        panel = charts.line(base, ["run:N", "round:Q", charts.tip("lost")])
        heading = alt.Title(step, subtitle=subtitle)
        panels.append(panel.properties(width=1.5 * PANEL, height=PANEL, title=heading))
    return Figure(
        "Knowledge lost in each step, not counting gains",
        f"L is the mean over clients and {units} of what the start model knew and a client's model does not. "
        f"G is the mean over {units} of what the best client's model knew and the global model does not.",
        charts.side_by_side(panels, rows),
    )


def saw_tooth_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return the loss before, after local training and after aggregation, of each label's first seed."""
    rows = []
    for label, seeds in group_by_label(runs).items():
        probes = [probe for probe in seeds[0].probe("local_per_class") if _is_finite(probe)]
        for probe in thin(probes, MOST_POINTS):
            loss, number = probe["loss"], int(probe["round"])
            rows += [
                {"run": label, "round": number, "at": at, "model": model, "loss": value}
                for model, at, value in (
                    (START_MODEL, number - 1.0, loss["start"]),
                    (LOCAL_MODELS, number - 0.5, forgetting.known_mean(loss["local"])),
                    (GLOBAL_MODEL, float(number), loss["merged"]),
                )
            ]
    return rows


def _is_finite(probe: Record) -> bool:
    """Return whether the loss was measured and did not overflow."""
    if not (loss := probe.get("loss")):
        return False
    return bool(np.isfinite(numbers([loss["start"], *loss["local"], loss["merged"]])).all())


def draw_saw_tooth(rows: Sequence[Row], display: Display) -> Figure:
    """Draw a line from model to model, one panel per run."""
    losses = [row["loss"] for row in rows]
    scale = alt.Scale(domain=[min(losses), max(losses)], nice=True)
    shape = alt.Shape(
        "model:N",
        scale=alt.Scale(domain=[LOCAL_MODELS, GLOBAL_MODEL], range=["triangle-up", "circle"]),
        legend=alt.Legend(title=None, orient="top", symbolFillColor="gray", symbolStrokeColor="gray"),
    )
    tips = ["round:Q", "model:N", alt.Tooltip("loss:Q", format=".3f")]
    color = display.run_color(rows, legend=False)

    def panel(base: Any) -> Any:
        height = alt.Y("loss:Q", title="loss on the test set", scale=scale)
        base = base.encode(charts.round_axis("at:Q"), height, color)
        line = base.mark_line(strokeWidth=1.2).encode(order="at:Q")
        ends = base.transform_filter(f"datum.model !== '{START_MODEL}'")
        return alt.layer(line, ends.mark_point(filled=True, size=26, opacity=0.9).encode(shape, tooltip=tips))

    return Figure(
        "Loss within each round",
        "High peaks are local models that drift from the global objective. Loss of the model at the start of "
        "a round, mean loss of the local models, loss of the global model.",
        charts.panel_per_run(rows, panel),
    )


SIGNED = Kind("signed-parts", step_rows, draw_signed, charts.over_rounds)
LOST = Kind("knowledge-lost", step_rows, draw_lost, charts.over_rounds)
SAW_TOOTH = Kind("saw-tooth", saw_tooth_rows, draw_saw_tooth)

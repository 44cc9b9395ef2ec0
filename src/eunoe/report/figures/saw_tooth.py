"""Loss of the start model, the local models and the global model, round after round (Flashback, figure 5)."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.metrics import forgetting
from eunoe.report.figures import charts
from eunoe.report.figures.charts import Display, Figure, Kind
from eunoe.report.figures.series import Row, group_by_label, thin
from eunoe.report.theme import MOST_POINTS
from eunoe.store.run_records import Record, RunRecords, numbers

START, LOCAL, GLOBAL = "start model", "local models, mean", "global model"


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return the loss before, after local training and after aggregation, of each label's first seed."""
    rows = []
    for label, seeds in group_by_label(runs).items():
        probes = [probe for probe in seeds[0].probe("local_per_class") if _is_finite(probe)]
        for probe in thin(probes, MOST_POINTS):
            loss, number = probe["loss"], int(probe["round"])
            positions, losses = forgetting.saw_tooth(
                [number], [loss["start"]], numbers(loss["local"])[None], [loss["merged"]]
            )
            steps = zip((START, LOCAL, GLOBAL), positions.tolist(), losses.tolist(), strict=True)
            rows += [
                {"run": label, "round": number, "at": position, "model": model, "loss": value}
                for model, position, value in steps
            ]
    return rows


def _is_finite(probe: Record) -> bool:
    """Return whether the loss was measured and did not overflow."""
    if not (loss := probe.get("loss")):
        return False
    return bool(np.isfinite(numbers([loss["start"], *loss["local"], loss["merged"]])).all())


def draw(rows: Sequence[Row], display: Display) -> Figure:
    """Draw a line from model to model, one panel per run."""
    losses = [row["loss"] for row in rows]
    scale = alt.Scale(domain=[min(losses), max(losses)], nice=True)
    shape = alt.Shape(
        "model:N",
        scale=alt.Scale(domain=[LOCAL, GLOBAL], range=["triangle-up", "circle"]),
        legend=alt.Legend(title=None, orient="top", symbolFillColor="gray", symbolStrokeColor="gray"),
    )
    tips = ["round:Q", "model:N", alt.Tooltip("loss:Q", format=".3f")]
    color = display.run_color(rows, legend=False)

    def panel(base: Any) -> Any:
        base = base.encode(
            charts.round_axis("at:Q"), alt.Y("loss:Q", title="loss on the test set", scale=scale), color
        )
        line = base.mark_line(strokeWidth=1.2).encode(order="at:Q")
        ends = base.transform_filter(f"datum.model !== '{START}'")
        return alt.layer(line, ends.mark_point(filled=True, size=26, opacity=0.9).encode(shape, tooltip=tips))

    def describe(own: list[Row]) -> str:
        local, aggregated = ([row for row in own if row["model"] == model] for model in (LOCAL, GLOBAL))
        return f"{charts.mean_of(local, 'loss'):.2f} and {charts.mean_of(aggregated, 'loss'):.2f}"

    words = charts.describe_runs(rows, describe)
    return Figure(
        "Loss within each round: high peaks are local models that drift from the global objective",
        "Loss of the model at the start of a round, mean loss of the local models, loss of the global model.",
        charts.panel_per_run(rows, panel).properties(
            description=f"Mean loss of local models and of the global model: {words}."
        ),
    )


KIND = Kind("saw-tooth", rows, draw)

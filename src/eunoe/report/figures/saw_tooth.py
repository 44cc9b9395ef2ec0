"""The saw-tooth of loss: start model, local models, global model, round after round."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.metrics import forgetting
from eunoe.report.figures.common import (
    STEP,
    Kind,
    always,
    by_label,
    in_panels,
    of_run,
    round_axis,
    run_labels,
)
from eunoe.report.theme import MOST_POINTS, PANEL, Row, described, run_color, thinned
from eunoe.store.run_records import Record, RunRecords, numbers

START, LOCAL, MERGED = "start model", "local models, mean", "global model"


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Loss at the start, after local training and after aggregation, of each label's first seed."""
    found = []
    for label, seeds in by_label(runs).items():
        probes = [probe for probe in seeds[0].probe("local_per_class") if _has_loss(probe)]
        for probe in thinned(probes, MOST_POINTS):
            loss, number = probe["loss"], int(probe["round"])
            positions, losses = forgetting.saw_tooth(
                [number], [loss["start"]], numbers(loss["local"])[None], [loss["merged"]]
            )
            for order, (position, value) in enumerate(zip(positions.tolist(), losses.tolist(), strict=True)):
                found.append(
                    {
                        "run": label,
                        "round": number,
                        "at": position,
                        "model": (START, LOCAL, MERGED)[order],
                        "loss": value,
                    }
                )
    return found


def _has_loss(probe: Record) -> bool:
    """Whether the loss was measured and is finite; that of a model that overflows is not."""
    if not (loss := probe.get("loss")):
        return False
    return bool(np.isfinite(numbers([loss["start"], *loss["local"], loss["merged"]])).all())


def draw(rows: Sequence[Row]) -> Any:
    """Loss from start to local models to global model, round after round (Flashback paper, figure 5)."""
    labels = run_labels(rows)
    hover = [alt.Tooltip("round:Q"), alt.Tooltip("model:N"), alt.Tooltip("loss:Q", format=".3f")]
    low, high = min(row["loss"] for row in rows), max(row["loss"] for row in rows)
    shape = alt.Shape(
        "model:N",
        scale=alt.Scale(domain=[LOCAL, MERGED], range=["triangle-up", "circle"]),
        legend=alt.Legend(title=None, orient="top", symbolFillColor="gray", symbolStrokeColor="gray"),
    )
    panels = []
    for label in labels:
        base = alt.Chart().transform_filter(of_run(label))
        base = base.encode(
            round_axis("at:Q"),
            alt.Y("loss:Q", title="loss on the test set", scale=alt.Scale(domain=[low, high], nice=True)),
            run_color(labels, legend=False),
        )
        line = base.mark_line(strokeWidth=1.2).encode(order="at:Q")
        ends = base.transform_filter(f"datum.model !== '{START}'")
        points = ends.mark_point(filled=True, size=26, opacity=0.9).encode(shape, tooltip=hover)
        panels.append(alt.layer(line, points).properties(width=1.5 * PANEL, height=PANEL, title=label))
    words = []
    for label in labels:
        mine = [row for row in rows if row["run"] == label]
        local = [row["loss"] for row in mine if row["model"] == LOCAL]
        merged = [row["loss"] for row in mine if row["model"] == MERGED]
        words.append(f"{label} {sum(local) / len(local):.2f} and {sum(merged) / len(merged):.2f}")
    text = f"Saw-tooth of loss. Mean loss of local models and of the global model: {'; '.join(words)}."
    return described(in_panels(panels, rows), text)


FIGURE = Kind(
    "saw-tooth",
    STEP,
    2,
    always("The saw-tooth of loss: high teeth are local models that drift from the common goal"),
    "Loss of the model a round starts from, mean loss of the clients' models, loss of the global model.",
    rows,
    draw,
)

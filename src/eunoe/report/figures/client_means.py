"""How much clients forget of each other, over the rounds."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.metrics import forgetting
from eunoe.report.figures.common import WHO, Kind, always, by_label, in_points, later, round_axis, run_labels
from eunoe.report.theme import MOST_PROBES, Row, described, run_color, table, thinned
from eunoe.store.run_records import RunRecords, numbers


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """F_k of each model (mean over others' data) at every probed round, all seeds."""
    found = []
    for label, seeds in by_label(runs).items():
        for seed, run in enumerate(seeds):
            for record in thinned(list(run.probe("client_matrix")), 2 * MOST_PROBES):
                lost = forgetting.client_forgetting(
                    numbers(record["start"]), numbers(record["after"]), record["models"], record["data"]
                )
                for model, mean in zip(record["models"], lost.by_model.tolist(), strict=True):
                    if not np.isnan(mean):
                        found.append(
                            {"run": label, "seed": seed, "round": int(record["round"]), "client": str(model)}
                            | {"lost": mean}
                        )
    return found


def draw(rows: Sequence[Row]) -> Any:
    """Mean forgetting F_k of every probed client over rounds, as in the WSM paper's figure 4."""
    labels = run_labels(rows)
    data = table(rows)
    height = alt.Y("lost:Q", title="forgotten on others' data", axis=alt.Axis(format="%"))
    base = alt.Chart(data).encode(round_axis())
    hover = [
        alt.Tooltip("run:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("client:N"),
        alt.Tooltip("lost:Q", title="forgotten", format=".1%"),
    ]
    points = base.mark_circle(opacity=0.3, size=24).encode(height, run_color(labels), tooltip=hover)
    means = base.mark_line(point=True).encode(
        alt.Y("mean(lost):Q", title="forgotten on others' data"),
        run_color(labels),
        tooltip=["run:N", "round:Q", alt.Tooltip("mean(lost):Q", title="mean forgotten", format=".1%")],
    )
    words = []
    for label in labels:
        values = [row["lost"] for row in later(rows) if row["run"] == label]
        words.append(f"{label} {in_points(values)}")
    text = "Accuracy on other clients' data that local training loses, per client and round; mean: "
    return described(alt.layer(points, means), f"{text}{'; '.join(words)}.")


FIGURE = Kind(
    "client-means",
    WHO,
    1,
    always("How much clients forget of each other, over the rounds"),
    "Each dot is one client's model: accuracy lost on other clients' data (F_k). The line is the mean.",
    rows,
    draw,
)

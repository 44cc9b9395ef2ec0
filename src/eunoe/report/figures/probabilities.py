"""In which classes the clients' models believe."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.metrics import forgetting
from eunoe.report.figures.common import SETTING, Kind, by_label, run_labels
from eunoe.report.theme import (
    HEIGHT,
    MOST_CELLS,
    MOST_CLIENTS,
    MOST_PROBES,
    WIDTH,
    Row,
    described,
    run_color,
    table,
    thinned,
)
from eunoe.store.run_records import RunRecords, numbers


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Mean output probability of a class against its count at the client; first seed of each label."""
    found = []
    for label, seeds in by_label(runs).items():
        for record in thinned(list(seeds[0].probe("probability")), MOST_PROBES):
            counts = seeds[0].label_counts
            result = forgetting.probability_by_count(
                numbers(record["probability"]),
                numbers(record["counts"]),
                None if counts is None else counts.max(axis=0),
            )
            names = seeds[0].names(result.probability.shape[1])
            for i, client in list(enumerate(record["clients"]))[:MOST_CLIENTS]:
                for c, name in enumerate(names):
                    share, probability = float(result.count_share[i, c]), float(result.probability[i, c])
                    if not np.isnan(share + probability):
                        found.append(
                            {
                                "run": label,
                                "round": int(record["round"]),
                                "client": str(client),
                                "class": name,
                            }
                            | {"share": share, "probability": probability}
                        )
    return thinned(found, MOST_CELLS // 8)


def title(rows: Sequence[Row]) -> str:
    """How likely local models find a class that their client has, and one that it has not."""
    held = [row["probability"] for row in rows if row["share"] > 0]
    absent = [row["probability"] for row in rows if row["share"] == 0]
    if not held or not absent:
        return "How likely local models find each class, by how often their client has it"
    return (
        f"A class that a client has gets {sum(held) / len(held):.0%} of its model's probability on average, "
        f"one that it lacks {sum(absent) / len(absent):.0%}"
    )


def draw(rows: Sequence[Row]) -> Any:
    """Mean output probability of a class against the share of its labels (Flashback paper, figure 9)."""
    hover = [
        alt.Tooltip("run:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("client:N"),
        alt.Tooltip("class:N"),
        alt.Tooltip("share:Q", title="share of labels", format=".0%"),
        alt.Tooltip("probability:Q", format=".1%"),
    ]
    chart = (
        alt.Chart(table(rows))
        .mark_circle(opacity=0.45, size=28)
        .encode(
            alt.X(
                "share:Q",
                title="labels of the class, as share of the most any client has",
                axis=alt.Axis(format="%"),
            ),
            alt.Y("probability:Q", title="mean output probability of the class", axis=alt.Axis(format="%")),
            run_color(run_labels(rows), symbol="circle"),
            tooltip=hover,
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
    return described(
        chart, "Scatter of a local model's mean probability of a class against its labels of that class."
    )


FIGURE = Kind(
    "probabilities",
    SETTING,
    1,
    title,
    "Mean output probability of a class on the public data, per local model, against its label count.",
    rows,
    draw,
)

"""Accuracy per class of the model a round starts from, of each client's model and of the global model."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.report.figures.common import (
    ACCURACY,
    WHICH,
    Kind,
    accuracy_key,
    always,
    class_names,
    first_seeds,
    in_panels,
    of_run,
    probed,
    round_slider,
    run_labels,
)
from eunoe.report.theme import MOST_CELLS, MOST_CLIENTS, MOST_PROBES, PANEL, Row, described
from eunoe.store.run_records import RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Per-class accuracy of the start model, each local model and the global model, per probed round."""
    groups = first_seeds(runs)
    cells = MOST_CLIENTS * max(1, sum(len(kept) for _, kept in groups.values()))
    rounds = probed(runs, "local_per_class", max(3, min(MOST_PROBES, MOST_CELLS // cells)))
    found = list[Row]()
    for label, (run, kept) in groups.items():
        for record in run.probe("local_per_class"):
            if int(record["round"]) not in rounds:
                continue
            clients = list(enumerate(record["clients"]))[:MOST_CLIENTS]
            models: list[tuple[str, Any, Any]] = [("start", record["start"], None)]
            counts = record.get("counts") or [None] * len(record["clients"])
            models += [(f"client {client}", record["local"][i], counts[i]) for i, client in clients]
            models.append(("merged", record["merged"], None))
            names = run.names(len(record["start"]))
            common = {
                "run": label,
                "probe": rounds.index(int(record["round"])),
                "round": int(record["round"]),
            }
            for order, (model, per_class, labels) in enumerate(models):
                for c in kept:
                    if per_class[c] is not None:
                        cell = {"class": names[c], "accuracy": float(per_class[c])}
                        count = None if labels is None else int(labels[c])
                        found.append({**common, "order": order, "model": model, **cell, "labels": count})
    return found


def draw(rows: Sequence[Row]) -> Any:
    """Per-class accuracy of all models of a chosen round (Flashback paper, figure 2)."""
    names = class_names(rows)
    order = alt.EncodingSortField("order", op="min")
    hover = [
        alt.Tooltip("model:N"),
        alt.Tooltip("class:N"),
        alt.Tooltip("accuracy:Q", format=".1%"),
        alt.Tooltip("labels:Q", title="train labels"),
        alt.Tooltip("round:Q"),
    ]
    panels = []
    for label in run_labels(rows):
        cells = alt.Chart().transform_filter(f"{of_run(label)} && datum.probe === probe")
        cells = cells.encode(
            alt.X("class:N", sort=names, title="class", axis=alt.Axis(labelAngle=0, grid=False)),
            alt.Y("model:N", sort=order, title=None, axis=alt.Axis(grid=False)),
        )
        filled = cells.mark_rect().encode(
            alt.Color("accuracy:Q", scale=ACCURACY, legend=accuracy_key()), tooltip=hover
        )
        held = cells.transform_filter("datum.labels > 0").mark_point(
            filled=True, size=14, color="white", stroke="black", strokeWidth=0.6, opacity=1
        )
        size = {"width": 1.3 * PANEL, "height": alt.Step(17)}
        panels.append(alt.layer(filled, held).properties(title=label, **size))
    chart = in_panels(panels, rows).add_params(round_slider(rows))
    chart = chart.resolve_scale(x="independent", y="independent")
    text = "Heat-map of accuracy per class of the model a round started from, of each client's trained model "
    return described(chart, text + f"and of the global model, for {', '.join(run_labels(rows))}.")


FIGURE = Kind(
    "local-models",
    WHICH,
    2,
    always(
        "From the start model to the clients and back: dark rows between bright ones are local forgetting"
    ),
    "Accuracy per class of the model a round starts from, of each client's trained model and of the "
    "global model. A dot marks a class that the client has data of.",
    rows,
    draw,
)

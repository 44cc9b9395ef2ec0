"""Figures of single classes: over the rounds, in all models of a round, and in one client's model."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.report import theme
from eunoe.report.figures import charts
from eunoe.report.figures.charts import Display, Figure, Kind
from eunoe.report.figures.series import Row, first_seeds, probed_rounds, select_classes, thin
from eunoe.store.run_records import RunRecords


def per_class_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return per-class accuracy over rounds of each label's first seed."""
    rows, groups = list[Row](), first_seeds(runs)
    lines = sum(len(classes) for _, classes in groups.values())
    most = min(theme.MOST_POINTS, theme.MOST_CELLS // max(1, lines))
    for label, (run, classes) in groups.items():
        history, rounds = run.per_class, run.rounds
        names = run.names(history.shape[1]) if len(history) else []
        shown = thin(range(len(history)), most)
        ends = [*(rounds[index] for index in shown[1:]), rounds[-1] + 1] if shown else []
        for index, end in zip(shown, ends, strict=True):
            cell = {"run": label, "round": rounds[index], "end": end}
            rows += [
                {**cell, "class": names[c], "accuracy": float(history[index, c])}
                for c in classes
                if not np.isnan(history[index, c])
            ]
    return rows


def draw_per_class(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the accuracy of each class over rounds, one panel per run."""
    names, task = charts.class_names(rows), display.task

    def panel(base: Any) -> Any:
        return base.mark_rect().encode(
            charts.round_axis(grid=False, scale=alt.Scale(nice=False, zero=False)),
            alt.X2("end:Q"),
            alt.Y("class:N", sort=names, title=task.unit, axis=charts.NO_GRID),
            display.unit_color(),
            tooltip=["run:N", "round:Q", *display.unit_tips()],
        )

    most = f" At most {theme.MOST_CLASSES} {task.units} are shown: those that lose most per round."
    return Figure(
        f"{charts.capitalize(task.unit_metric)} of each {task.unit}",
        f"Global model; a dark cell right of a bright one is a {task.unit} forgotten."
        + most * (len(names) >= theme.MOST_CLASSES),
        charts.panel_per_run(rows, panel, height=max(theme.PANEL, 9 * len(names))),
    )


def local_models_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return per-class accuracy of all models of each label's first seed, per probed round."""
    groups = first_seeds(runs)
    cells = theme.MOST_CLIENTS * max(1, sum(len(classes) for _, classes in groups.values()))
    rounds = probed_rounds(runs, "local_per_class", max(3, min(theme.MOST_PROBES, theme.MOST_CELLS // cells)))
    rows = list[Row]()
    for label, (run, classes) in groups.items():
        for record in run.probe("local_per_class"):
            if (number := int(record["round"])) not in rounds:
                continue
            counts = record.get("counts") or [None] * len(record["clients"])
            local = zip(record["clients"], record["local"], counts, strict=True)
            models: list[tuple[str, Any, Any]] = [("start", record["start"], None)]
            models += [(f"client {client}", *own) for client, *own in list(local)[: theme.MOST_CLIENTS]]
            models += [("global", record["merged"], None)]
            names = run.names(len(record["start"]))
            for order, (model, per_class, held) in enumerate(models):
                common = {"run": label, "probe": rounds.index(number), "round": number, "order": order}
                rows += [
                    {**common, "model": model, "class": names[c], "accuracy": float(per_class[c])}
                    | {"labels": None if held is None else int(held[c])}
                    for c in classes
                    if per_class[c] is not None
                ]
    return rows


def draw_local_models(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the models of the round at the slider, one panel per run."""
    names, task = charts.class_names(rows), display.task
    tips = ["model:N", *display.unit_tips(), alt.Tooltip("labels:Q", title="train labels"), "round:Q"]

    def panel(base: Any) -> Any:
        cells = base.transform_filter("datum.probe === probe").encode(
            alt.X("class:N", sort=names, title=task.unit, axis=alt.Axis(labelAngle=0, grid=False)),
            alt.Y("model:N", sort=alt.EncodingSortField("order", op="min"), title=None, axis=charts.NO_GRID),
        )
        held = cells.transform_filter("datum.labels > 0").mark_point(
            filled=True, size=14, color="white", stroke="black", strokeWidth=0.6, opacity=1
        )
        return alt.layer(cells.mark_rect().encode(display.unit_color(), tooltip=tips), held)

    chart = charts.panel_per_run(rows, panel, width=1.3 * theme.PANEL, height=alt.Step(17))
    chart = chart.add_params(charts.round_slider(rows)).resolve_scale(x="independent", y="independent")
    return Figure(
        "From the start model to local models to the global model",
        f"{charts.capitalize(task.unit_metric)} per {task.unit} of the model at the start of a round, of "
        "each client's model after local training and of the global model. Dark rows between bright ones "
        f"are local forgetting. A dot marks a {task.unit} that the client has data of.",
        chart,
    )


def one_client_rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return accuracy and label counts of the client that took part most often in the first run."""
    run = runs[0]
    records = [record for record in run.probe("local_per_class") if record.get("counts")]
    rounds = Counter(client for record in records for client in record["clients"])
    if not rounds:
        return []
    client = max(rounds, key=lambda name: (rounds[name], -int(name)))
    rows, classes = list[Row](), select_classes(runs, run)
    for record in thin([record for record in records if client in record["clients"]], 4 * theme.MOST_PROBES):
        at, names = record["clients"].index(client), run.names(len(record["start"]))
        accuracy, counts = record["local"][at], record["counts"][at]
        common = {"client": str(client), "round": int(record["round"])}
        rows += [
            {**common, "class": names[c], "accuracy": float(accuracy[c]), "labels": int(counts[c])}
            for c in classes
            if accuracy[c] is not None
        ]
    return rows


def one_client_title(rows: Sequence[Row], display: Display) -> str:
    """State how well the client's model knows the classes of its data, and the others."""
    own, others = [row for row in rows if row["labels"]], [row for row in rows if not row["labels"]]
    named = ((own, f"the {display.task.units} of its data"), (others, "the others"))
    parts = [f"{charts.mean_of(part, 'accuracy'):.0%} on {words}" for part, words in named if part]
    return f"Model of client {rows[0]['client']} after local training: {', '.join(parts)}"


def draw_one_client(rows: Sequence[Row], display: Display) -> Figure:
    """Draw a heat map of accuracies beside bars of label counts."""
    names, task, client = charts.class_names(rows), display.task, rows[0]["client"]
    base = alt.Chart()
    known = base.mark_rect().encode(
        alt.X("round:O", title="round of participation", axis=alt.Axis(labelAngle=0)),
        alt.Y("class:N", sort=names, title=task.unit, axis=charts.NO_GRID),
        display.unit_color(),
        tooltip=["round:Q", *display.unit_tips(), "labels:Q"],
    )
    held = base.mark_bar(color=theme.PALETTE[0]).encode(
        alt.X("max(labels):Q", title="train labels"),
        alt.Y("class:N", sort=names, title=None, axis=charts.NO_GRID),
        tooltip=[display.unit_tips()[0], alt.Tooltip("max(labels):Q", title="train labels")],
    )
    height = max(theme.PANEL, 9 * len(names))
    panels = [
        known.properties(
            width=1.5 * theme.PANEL, height=height, title=f"client {client}: {task.unit_metric}"
        ),
        held.properties(width=0.8 * theme.PANEL, height=height, title="label counts"),
    ]
    return Figure(
        one_client_title(rows, display),
        f"The client that took part most often in the first run: {task.unit_metric} per {task.unit} of its "
        "model after each participation, beside its label counts.",
        charts.side_by_side(panels, rows),
    )


PER_CLASS = Kind("per-class", per_class_rows, draw_per_class, charts.over_rounds)
LOCAL_MODELS = Kind("local-models", local_models_rows, draw_local_models)
ONE_CLIENT = Kind("one-client", one_client_rows, draw_one_client, charts.over_rounds)

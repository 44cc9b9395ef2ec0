"""Per-class accuracy of the start model, the local models and the global model (Flashback, figure 2)."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.report.figures import charts
from eunoe.report.figures.charts import Display, Figure, Kind
from eunoe.report.figures.series import Row, first_seeds, probed_rounds
from eunoe.report.theme import MOST_CELLS, MOST_CLIENTS, MOST_PROBES, PANEL
from eunoe.store.run_records import RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return per-class accuracy of all models of each label's first seed, per probed round."""
    groups = first_seeds(runs)
    cells = MOST_CLIENTS * max(1, sum(len(classes) for _, classes in groups.values()))
    rounds = probed_rounds(runs, "local_per_class", max(3, min(MOST_PROBES, MOST_CELLS // cells)))
    rows = list[Row]()
    for label, (run, classes) in groups.items():
        for record in run.probe("local_per_class"):
            if (number := int(record["round"])) not in rounds:
                continue
            counts = record.get("counts") or [None] * len(record["clients"])
            local = zip(record["clients"], record["local"], counts, strict=True)
            models: list[tuple[str, Any, Any]] = [("start", record["start"], None)]
            models += [(f"client {client}", *own) for client, *own in list(local)[:MOST_CLIENTS]]
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


def draw(rows: Sequence[Row], display: Display) -> Figure:
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

    chart = charts.panel_per_run(rows, panel, width=1.3 * PANEL, height=alt.Step(17))
    chart = chart.add_params(charts.round_slider(rows)).resolve_scale(x="independent", y="independent")
    what = f"{task.unit_metric} per {task.unit} of the model at the start of a round, of each client's model "
    what += "after local training and of the global model"
    return Figure(
        "From the start model to local models to the global model: dark rows between bright ones are local "
        "forgetting",
        f"{charts.capitalize(what)}. A dot marks a {task.unit} that the client has data of.",
        chart.properties(description=f"Heat map of {what}, for {', '.join(charts.by_run(rows))}."),
    )


KIND = Kind("local-models", rows, draw)

"""Per-class accuracy of one client's model over time, beside its label counts (Flashback paper, figure 8)."""

from collections import Counter
from collections.abc import Sequence

import altair as alt

from eunoe.report.figures import charts
from eunoe.report.figures.charts import Display, Figure, Kind
from eunoe.report.figures.series import Row, select_classes, thin
from eunoe.report.theme import MOST_PROBES, PALETTE, PANEL
from eunoe.store.run_records import RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return accuracy and label counts of the client that took part most often in the first run."""
    run = runs[0]
    records = [record for record in run.probe("local_per_class") if record.get("counts")]
    rounds = Counter(client for record in records for client in record["clients"])
    if not rounds:
        return []
    client = max(rounds, key=lambda name: (rounds[name], -int(name)))
    rows, classes = list[Row](), select_classes(runs, run)
    for record in thin([record for record in records if client in record["clients"]], 4 * MOST_PROBES):
        at, names = record["clients"].index(client), run.names(len(record["start"]))
        accuracy, counts = record["local"][at], record["counts"][at]
        common = {"client": str(client), "round": int(record["round"])}
        rows += [
            {**common, "class": names[c], "accuracy": float(accuracy[c]), "labels": int(counts[c])}
            for c in classes
            if accuracy[c] is not None
        ]
    return rows


def title(rows: Sequence[Row], display: Display) -> str:
    """State how well the client's model knows the classes of its data, and the others."""
    parts = []
    for words, own in (
        (f"the {display.task.units} of its data", [row for row in rows if row["labels"]]),
        ("the others", [row for row in rows if not row["labels"]]),
    ):
        parts += [f"{charts.mean_of(own, 'accuracy'):.0%} on {words}"] if own else []
    return f"Model of client {rows[0]['client']} after local training: {', '.join(parts)}"


def draw(rows: Sequence[Row], display: Display) -> Figure:
    """Draw a heat map of accuracies beside bars of label counts."""
    names, task, client = charts.class_names(rows), display.task, rows[0]["client"]
    base = alt.Chart()
    known = base.mark_rect().encode(
        alt.X("round:O", title="round of participation", axis=alt.Axis(labelAngle=0)),
        alt.Y("class:N", sort=names, title=task.unit, axis=charts.NO_GRID),
        display.unit_color(),
        tooltip=["round:Q", *display.unit_tips(), "labels:Q"],
    )
    held = base.mark_bar(color=PALETTE[0]).encode(
        alt.X("max(labels):Q", title="train labels"),
        alt.Y("class:N", sort=names, title=None, axis=charts.NO_GRID),
        tooltip=[display.unit_tips()[0], alt.Tooltip("max(labels):Q", title="train labels")],
    )
    height = max(PANEL, 9 * len(names))
    panels = [
        known.properties(width=1.5 * PANEL, height=height, title=f"client {client}: {task.unit_metric}"),
        held.properties(width=0.8 * PANEL, height=height, title="label counts"),
    ]
    what = f"per {task.unit} of its model after each participation, beside its label counts."
    return Figure(
        title(rows, display),
        f"The client that took part most often in the first run: {task.unit_metric} {what}",
        charts.side_by_side(panels, rows).properties(
            description=f"Heat map for client {client}: {task.unit_metric} {what}"
        ),
    )


KIND = Kind("one-client", rows, draw)

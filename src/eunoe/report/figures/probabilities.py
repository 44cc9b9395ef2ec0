"""Mean output probability of a class by how often a client has it (Flashback paper, figure 9)."""

from collections.abc import Sequence

import altair as alt
import numpy as np

from eunoe.metrics import forgetting
from eunoe.report.figures.charts import PERCENT, Display, Figure, Kind, mean_of, table, tip
from eunoe.report.figures.series import Row, group_by_label, thin
from eunoe.report.theme import HEIGHT, MOST_CELLS, MOST_CLIENTS, MOST_PROBES, WIDTH
from eunoe.store.run_records import RunRecords, numbers


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return probability and label share per local model and class, of each label's first seed."""
    rows = []
    for label, (run, *_) in group_by_label(runs).items():
        for record in thin(list(run.probe("probability")), MOST_PROBES):
            result = forgetting.probability_by_count(
                numbers(record["probability"]),
                numbers(record["counts"]),
                None if run.label_counts is None else run.label_counts.max(axis=0),
            )
            names = run.names(result.probability.shape[1])
            for i, client in list(enumerate(record["clients"]))[:MOST_CLIENTS]:
                common = {"run": label, "round": int(record["round"]), "client": str(client)}
                rows += [
                    {**common, "class": name, "share": share, "probability": probability}
                    for name, share, probability in zip(
                        names, result.count_share[i].tolist(), result.probability[i].tolist(), strict=True
                    )
                    if not np.isnan(share + probability)
                ]
    return thin(rows, MOST_CELLS // 8)


def title(rows: Sequence[Row], display: Display) -> str:
    """State the mean probability of classes that a client has, and of those that it lacks."""
    held, absent = [row for row in rows if row["share"] > 0], [row for row in rows if row["share"] == 0]
    if not held or not absent:
        return f"Output probability of each {display.task.unit} by its label count"
    return (
        f"Local models predict a {display.task.unit} that their client has with a mean probability of "
        f"{mean_of(held, 'probability'):.0%}, one that it lacks with {mean_of(absent, 'probability'):.0%}"
    )


def draw(rows: Sequence[Row], display: Display) -> Figure:
    """Draw a dot per local model and class."""
    unit = display.task.unit
    tips = ["run:N", "round:Q", "client:N", alt.Tooltip("class:N", title=unit)]
    tips += [tip("share", "share of labels", ".0%"), tip("probability")]
    chart = alt.Chart(table(rows)).mark_circle(opacity=0.45, size=28)
    chart = chart.encode(
        alt.X("share:Q", title=f"labels of the {unit}, relative to the most of any client", axis=PERCENT),
        alt.Y("probability:Q", title=f"mean output probability of the {unit}", axis=PERCENT),
        display.run_color(rows, symbol="circle"),
        tooltip=tips,
    )
    text = f"Scatter plot of a local model's mean probability of a {unit} against its labels of that {unit}."
    return Figure(
        title(rows, display),
        f"Mean output probability of a {unit} on the public data, per local model, by its label count.",
        chart.properties(width=WIDTH, height=HEIGHT, description=text),
        wide=False,
    )


KIND = Kind("probabilities", rows, draw)

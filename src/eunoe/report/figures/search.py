"""The search of a cure: main metric of each remedy over the rounds, and against forgetting."""

from collections.abc import Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.report.figures import charts
from eunoe.report.figures.charts import Display, Figure
from eunoe.report.figures.curves import main_metric
from eunoe.report.figures.series import Row, band_rows, group_by_label
from eunoe.report.theme import HEIGHT, PALETTE, WIDTH
from eunoe.store.run_records import RunRecords, relabel, with_averaging, without_averaging

SECTION = "The search"
GRAY = "#8c8c8c"
# Remedies with a color; the others are gray and named in tooltips.
MOST_NAMED = 6
STOPPED = "stopped earlier"


def search_figures(runs: Sequence[RunRecords]) -> list[Figure]:
    """Draw the figures of a search; its runs are distinguished by title, and some stopped early."""
    remedies = [variant for run in runs if len(run.measured) for variant in both_models(run)]
    if not remedies:
        return []
    metric = Display.of(remedies).task.title
    points = sorted(final_points(remedies), key=lambda row: (-row["rounds"], -row["accuracy"]))
    first = points[0]
    best = [row["run"] for row in points if row["rounds"] == first["rounds"]][:MOST_NAMED]
    domain = [*best, *([STOPPED] if len(points) > len(best) else [])]
    scale = alt.Scale(domain=domain, range=[*PALETTE[: len(best)], GRAY][: len(domain)])
    key = alt.Legend(title=None, orient="top", columns=2, labelLimit=WIDTH, symbolOpacity=1)
    color = alt.Color("shown:N", scale=scale, legend=key, sort=domain)
    faint = alt.condition(f"datum.shown === '{STOPPED}'", alt.value(0.45), alt.value(1.0))

    def chart(rows: Sequence[Row], height: str) -> Any:
        # The best come last, so that they are drawn over the others.
        ranked = sorted(rows, key=lambda row: row["run"] in best)
        shown = [{**row, "shown": row["run"] if row["run"] in best else STOPPED} for row in ranked]
        axis = alt.Y(height, title=f"validation {metric}", axis=charts.PERCENT, scale=alt.Scale(zero=False))
        return alt.Chart(charts.table(shown)).encode(axis, color)

    def figure(name: str, title: str, caption: str, drawn: Any, what: str) -> Figure:
        end = f"{first['accuracy']:.1%} after {first['rounds']} rounds"
        text = f"{what}. {first['run']} came furthest, at {end}."
        drawn = drawn.properties(width=2 * WIDTH, height=1.3 * HEIGHT)
        return Figure(title, caption, drawn, text, name=name, section=SECTION)

    base = chart(band_rows(remedies, main_metric), "mean:Q").encode(charts.round_axis(), detail="run:N")
    tips = ["run:N", "round:Q", charts.tip("mean", metric)]
    lines = alt.layer(base.mark_line(point=True).encode(opacity=faint), charts.hover_points(base, tips))
    scatter = (
        chart(points, "accuracy:Q")
        .mark_point(filled=True, size=90)
        .encode(
            alt.X("forgetting:Q", title="round forgetting", axis=charts.PERCENT),
            opacity=faint,
            tooltip=["run:N", "rounds:Q", charts.tip("accuracy", metric), charts.tip("forgetting")],
        )
    )
    return [
        figure(
            "search-curves",
            "Progress of each remedy on the search seeds",
            f"Validation {metric}, mean over the search seeds. A line ends where the remedy was stopped.",
            lines,
            f"Line chart of {metric} over rounds",
        ),
        figure(
            "search-front",
            f"{charts.capitalize(metric)} against forgetting",
            "The best are at the upper left. A point per remedy, at its last round. An average of models "
            "forgets little by construction.",
            scatter,
            f"Scatter plot of {metric} against forgetting",
        ),
    ]


def both_models(run: RunRecords) -> list[RunRecords]:
    """Return a run by its evaluated model and, where that is an average of models, by its newest one too."""
    title = run.checked_config.title
    if not any(record.get("sent") for record in run.metrics):
        return [relabel(run, title)]
    return [without_averaging(run, title), relabel(run, with_averaging(title))]


def final_points(runs: Sequence[RunRecords]) -> list[Row]:
    """Return the final main metric and mean round forgetting of each remedy, mean over its seeds."""
    return [
        {
            "run": label,
            "rounds": max(run.rounds[-1] for run in seeds),
            "accuracy": float(np.mean([run.final(f"{run.part}.{run.task.metric}") for run in seeds])),
            "forgetting": float(np.mean([run.round_forgetting for run in seeds])),
        }
        for label, seeds in group_by_label(runs).items()
    ]

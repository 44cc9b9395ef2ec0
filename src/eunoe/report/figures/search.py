"""The search of a cure: main metric of each remedy over the rounds, and against forgetting."""

from collections.abc import Callable, Sequence
from typing import Any

import altair as alt
import numpy as np

from eunoe.report.figures import charts
from eunoe.report.figures.charts import Display, Figure
from eunoe.report.figures.curves import main_metric
from eunoe.report.figures.series import Row, band_rows, group_by_label
from eunoe.report.theme import HEIGHT, WIDTH
from eunoe.store.run_records import RunRecords, relabel, with_averaging, without_averaging

SECTION = "The search"
GRAY = "#8c8c8c"
# Remedies with a color; the others are gray and named in tooltips.
MOST_NAMED = 6


def search_figures(runs: Sequence[RunRecords], labels: Sequence[str] = ()) -> list[Figure]:
    """Draw the figures of a search; its runs are distinguished by title, and some stopped early.

    Runs with one of these labels have the color that they have in the other figures of the report.
    """
    remedies = [variant for run in runs if len(run.measured) for variant in both_models(run)]
    if not remedies:
        return []
    display = Display(Display.of(remedies).task, labels)
    metric = display.task.title
    points = sorted(final_points(remedies), key=lambda row: (-row["rounds"], -row["accuracy"]))
    best = [row["run"] for row in points if row["rounds"] == points[0]["rounds"]][:MOST_NAMED]

    def figure(
        name: str,
        title: str,
        caption: str,
        rows: Sequence[Row],
        height: str,
        mark: Callable[[Any], Any],
        symbol: str,
    ) -> Figure:
        axis = alt.Y(height, title=f"validation {metric}", axis=charts.PERCENT, scale=alt.Scale(zero=False))
        # In order of rank, as in the legend.
        named = [row for run in best for row in rows if row["run"] == run]
        others = [row for row in rows if row["run"] not in best]
        gray = alt.Chart(charts.table(others)).encode(axis, color=alt.value(GRAY), opacity=alt.value(0.45))
        colored = mark(alt.Chart(charts.table(named)).encode(axis, display.run_color(named, symbol)))
        drawn = alt.layer(*([mark(gray)] if others else []), colored)
        drawn = drawn.properties(width=2 * WIDTH, height=1.3 * HEIGHT)
        caption += " Gray: other remedies." if others else ""
        return Figure(title, caption, drawn, name=name, section=SECTION)

    def lines(base: Any) -> Any:
        tips = ["run:N", "round:Q", charts.tip("mean", metric)]
        return base.mark_line(point=True).encode(charts.round_axis(), detail="run:N", tooltip=tips)

    def scatter(base: Any) -> Any:
        forgetting = alt.X("forgetting:Q", title="round forgetting", axis=charts.PERCENT)
        tips = ["run:N", "rounds:Q", charts.tip("accuracy", metric), charts.tip("forgetting")]
        return base.mark_point(filled=True, size=90).encode(forgetting, tooltip=tips)

    return [
        figure(
            "search-curves",
            "Progress of each remedy on the search seeds",
            f"Validation {metric}, mean over the search seeds. A line ends where the remedy was stopped.",
            band_rows(remedies, main_metric),
            "mean:Q",
            lines,
            "stroke",
        ),
        figure(
            "search-front",
            f"{charts.capitalize(metric)} against forgetting",
            "The best are at the upper left. A point per remedy, at its last round. An average of models "
            "forgets little by construction.",
            points,
            "accuracy:Q",
            scatter,
            "circle",
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

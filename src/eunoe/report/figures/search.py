"""The search of a cure: each remedy's accuracy over the rounds, and accuracy against forgetting."""

from collections.abc import Sequence

import altair as alt
import numpy as np

from eunoe.report.figures.accuracy import series as accuracy
from eunoe.report.figures.common import band, by_label, hover_points, round_axis
from eunoe.report.theme import HEIGHT, PALETTE, WIDTH, Figure, Row, described, table
from eunoe.store.main_metric import common_task
from eunoe.store.run_records import RunRecords, by_newest_model, relabeled, with_averaging

SECTION = "The search"
GRAY = "#8c8c8c"


# What has a color and a name in the figures; all others are gray, and named where the pointer is.
MOST_NAMED = 6
GIVEN_UP = "given up earlier"


def search_figures(runs: Sequence[RunRecords]) -> list[Figure]:
    """The figures of a search's runs, which are told apart by their titles: some came further than others."""
    named = [form for run in runs if len(run.measured) for form in both_models(run)]
    if not named:
        return []
    title = common_task([run.task for run in named]).title
    points = sorted(front(named), key=lambda row: (-row["rounds"], -row["accuracy"]))
    best = [row["run"] for row in points if row["rounds"] == points[0]["rounds"]][:MOST_NAMED]
    others = [GIVEN_UP] if len(points) > len(best) else []
    scale = alt.Scale(domain=[*best, *others], range=[*PALETTE[: len(best)], *(GRAY for _ in others)])
    key = alt.Legend(title=None, orient="top", columns=2, labelLimit=WIDTH, symbolOpacity=1)
    color = alt.Color("shown:N", scale=scale, legend=key, sort=[*best, *others])
    faint = alt.condition(f"datum.shown === '{GIVEN_UP}'", alt.value(0.45), alt.value(1.0))
    size = {"width": 2 * WIDTH, "height": 1.3 * HEIGHT}

    def shown(rows: Sequence[Row]) -> alt.InlineData:
        # The best last, so that they are drawn over the others.
        ranked = sorted(rows, key=lambda row: row["run"] in best)
        return table([{**row, "shown": row["run"] if row["run"] in best else GIVEN_UP} for row in ranked])

    base = alt.Chart(shown(band(named, accuracy))).encode(
        round_axis(), _height("mean:Q", title), color, detail="run:N"
    )
    hover = ["run:N", alt.Tooltip("round:Q"), alt.Tooltip("mean:Q", title=title, format=".1%")]
    lines = alt.layer(base.mark_line(point=True).encode(opacity=faint), hover_points(base, hover))
    scatter = (
        alt.Chart(shown(points))
        .mark_point(filled=True, size=90)
        .encode(
            alt.X("forgetting:Q", title="round forgetting", axis=alt.Axis(format="%")),
            _height("accuracy:Q", title),
            color,
            opacity=faint,
            tooltip=[
                "run:N",
                alt.Tooltip("rounds:Q"),
                alt.Tooltip("accuracy:Q", title=title, format=".1%"),
                alt.Tooltip("forgetting:Q", format=".1%"),
            ],
        )
    )
    first = points[0]
    words = f"{first['run']} came furthest, at {first['accuracy']:.1%} after {first['rounds']} rounds."
    return [
        Figure(
            "search-curves",
            "What each remedy reached on the search seeds",
            f"Validation {title}, mean over the search seeds; a line ends where the remedy was given up.",
            described(lines.properties(**size), f"Lines of {title} over rounds. {words}"),
            SECTION,
            panels=2,
        ),
        Figure(
            "search-front",
            f"{title[0].upper()}{title[1:]} against forgetting: the best are at the upper left",
            "A point per remedy, at the round it came to. A mean of models forgets little by construction.",
            described(scatter.properties(**size), f"Points of {title} against forgetting. {words}"),
            SECTION,
            panels=2,
        ),
    ]


def _height(field: str, title: str) -> alt.Y:
    return alt.Y(field, title=f"validation {title}", axis=alt.Axis(format="%"), scale=alt.Scale(zero=False))


def both_models(run: RunRecords) -> list[RunRecords]:
    """A run by its evaluated model and, where that is a mean of models, by its newest one too."""
    title = run.checked_config.title
    if not any(record.get("sent") for record in run.metrics):
        return [relabeled(run, title)]
    return [by_newest_model(run, title), relabeled(run, with_averaging(title))]


def front(runs: Sequence[RunRecords]) -> list[Row]:
    """Accuracy at the end and mean round forgetting of each remedy, as means over its seeds."""
    return [
        {
            "run": label,
            "rounds": max(run.rounds[-1] for run in seeds),
            "accuracy": float(np.mean([run.final(f"{run.part}.{run.task.metric}") for run in seeds])),
            "forgetting": float(np.mean([run.round_forgetting for run in seeds])),
        }
        for label, seeds in by_label(runs).items()
    ]

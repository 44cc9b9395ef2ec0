"""The search of a cure: each remedy's accuracy over the rounds, and accuracy against forgetting."""

from collections.abc import Sequence

import altair as alt
import numpy as np

from eunoe.records.reader import RunRecords, by_newest_model, relabeled, with_averaging
from eunoe.report.figures.accuracy import series as accuracy
from eunoe.report.figures.common import band, by_label, round_axis
from eunoe.report.theme import HEIGHT, WIDTH, Figure, Row, described, table

SECTION = "The search"


def search_figures(runs: Sequence[RunRecords]) -> list[Figure]:
    """The figures of a search's runs, which are told apart by their titles: some came further than others."""
    named = [form for run in runs if run.measured for form in both_models(run)]
    if not named:
        return []
    curves = band(named, accuracy)
    points = front(named)
    best = max(points, key=lambda row: (row["rounds"], row["accuracy"]))
    color = alt.Color("run:N", scale=alt.Scale(scheme="tableau20"), legend=alt.Legend(title=None, columns=1))
    hover = ["run:N", alt.Tooltip("rounds:Q"), alt.Tooltip("accuracy:Q", format=".1%")]
    lines = (
        alt.Chart(table(curves))
        .mark_line()
        .encode(
            round_axis(), alt.Y("mean:Q", title="validation accuracy", scale=alt.Scale(zero=False)), color
        )
    )
    scatter = (
        alt.Chart(table(points))
        .mark_point(filled=True, size=70)
        .encode(
            alt.X("forgetting:Q", title="round forgetting"),
            alt.Y("accuracy:Q", title="validation accuracy", scale=alt.Scale(zero=False)),
            color,
            alt.Size("rounds:O", title="rounds"),
            tooltip=[*hover, alt.Tooltip("forgetting:Q", format=".3f")],
        )
    )
    words = f"{best['run']} came furthest, at {best['accuracy']:.1%} after {best['rounds']} rounds."
    size = {"width": WIDTH, "height": HEIGHT}
    return [
        Figure(
            "search-curves",
            "What each remedy reached on the search seeds",
            "Validation accuracy, mean over the search seeds; a line ends where the remedy was given up.",
            described(lines.properties(**size), f"Lines of accuracy over rounds. {words}"),
            SECTION,
        ),
        Figure(
            "search-front",
            "Accuracy against forgetting: the best are at the upper left",
            "A point per remedy, at the round it came to; larger points came further.",
            described(scatter.properties(**size), f"Points of accuracy against forgetting. {words}"),
            SECTION,
        ),
    ]


def both_models(run: RunRecords) -> list[RunRecords]:
    """A run by its evaluated model and, where that is a mean of models, by its newest one too."""
    title = run.checked_config.title
    if not any("sent" in record for record in run.metrics):
        return [relabeled(run, title)]
    return [by_newest_model(run, title), relabeled(run, with_averaging(title))]


def front(runs: Sequence[RunRecords]) -> list[Row]:
    """Accuracy at the end and mean round forgetting of each remedy, as means over its seeds."""
    return [
        {
            "run": label,
            "rounds": max(run.rounds[-1] for run in seeds),
            "accuracy": float(np.mean([run.final(f"{run.part}.accuracy") for run in seeds])),
            "forgetting": float(np.mean([run.round_forgetting for run in seeds])),
        }
        for label, seeds in by_label(runs).items()
    ]

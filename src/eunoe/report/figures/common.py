"""Shared by figures: the definition of a figure, grouping by label, hover points, the slider."""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import altair as alt
import numpy as np
from numpy.typing import NDArray

from eunoe.analysis.data_changes import phase_starts
from eunoe.metrics import forgetting
from eunoe.report.figures.phase_strip import phase_strip
from eunoe.report.theme import (
    MOST_CLASSES,
    MOST_POINTS,
    MOST_PROBES,
    Row,
    run_color,
    table,
    thinned,
)
from eunoe.store.run_records import Array, RunRecords

ROUNDS = "Over the rounds"
OWN = "Your own metrics"
WHO = "Whose knowledge is lost"
WHICH = "Which classes are lost"
STEP = "In which step it is lost"
SETTING = "Clients and costs"

ACCURACY = alt.Scale(domain=[0, 1])

# The rounds and the heights of one run.
Series = Callable[[RunRecords], tuple[Sequence[int], Array]]


class Kind(NamedTuple):
    """A kind of figure: its section in the report, its rows, how they are drawn, its title and caption.

    The title is computed from the rows, so that its claim is what they show.
    """

    name: str
    section: str
    panels: int
    title: Callable[[Sequence[Row]], str]
    caption: str
    rows: Callable[[Sequence[RunRecords]], list[Row]]
    draw: Callable[[Sequence[Row]], Any]


def always(title: str) -> Callable[[Sequence[Row]], str]:
    """A fixed title that explains how to read a figure."""
    return lambda rows: title


def run_labels(rows: Sequence[Row]) -> list[str]:
    """The labels of the runs, in order."""
    return list(dict.fromkeys(row["run"] for row in rows))


def class_names(rows: Sequence[Row]) -> list[str]:
    """The names of the classes, in order."""
    return list(dict.fromkeys(row["class"] for row in rows))


def of_run(label: str) -> str:
    """A filter for one run's rows in Vega's expression language, with the label escaped."""
    safe = "".join(char if char.isascii() and char.isalnum() else _escaped(char) for char in label)
    return f"datum.run === '{safe}'"


def _escaped(char: str) -> str:
    pairs = char.encode("utf-16-be")
    return "".join(f"\\u{pairs[at]:02x}{pairs[at + 1]:02x}" for at in range(0, len(pairs), 2))


def hover_points(base: Any, hover: Sequence[Any]) -> Any:
    """Large invisible points, so that tooltips show without aiming at a thin line."""
    return base.mark_point(opacity=0, size=160).encode(tooltip=list(hover))


def round_axis(field: str = "round:Q") -> alt.X:
    """The horizontal axis of curves: whole rounds."""
    return alt.X(field, title="round", axis=whole_rounds())


def whole_rounds(**look: Any) -> alt.Axis:
    """An axis of rounds; fractional ticks, which Vega adds between few rounds, get no label."""
    return alt.Axis(tickMinStep=1, format="d", labelExpr="datum.value % 1 ? '' : datum.label", **look)


def slider_rounds(rows: Sequence[Row]) -> list[int]:
    """The round of each position of the slider."""
    return [number for _, number in sorted({(row["probe"], row["round"]) for row in rows})]


def slider_start(rows: Sequence[Row]) -> int:
    """The initial position of the slider: three tenths of the run, as in the WSM paper."""
    rounds = slider_rounds(rows)
    return min(range(len(rounds)), key=lambda at: abs(rounds[at] - 0.3 * rounds[-1]))


def round_slider(rows: Sequence[Row]) -> alt.Parameter:
    """A slider over the probed rounds, named `probe`."""
    slider = alt.binding_range(min=0, max=len(slider_rounds(rows)) - 1, step=1, name="Probed round ")
    return alt.param(name="probe", value=slider_start(rows), bind=slider)


def in_panels(panels: Sequence[Any], rows: Sequence[Row], columns: int | None = None) -> Any:
    """Panels side by side on the same rows, three per row unless fewer fill the rows better."""
    default = 2 if len(panels) in (1, 2, 4) else 3
    return alt.concat(*panels, columns=columns or default, spacing=24, data=table(rows))


def later(rows: Sequence[Row]) -> list[Row]:
    """The rows after the first round, if there are any: as in the summary, the untrained model counts not."""
    return [row for row in rows if row["round"] > 1] or list(rows)


def in_points(values: Sequence[float]) -> str:
    """The mean of some shares, in points."""
    return f"{100 * sum(values) / len(values):.1f} points"


def by_label(runs: Sequence[RunRecords]) -> dict[str, list[RunRecords]]:
    """Runs grouped by label, in order of first appearance."""
    groups: dict[str, list[RunRecords]] = {}
    for run in runs:
        groups.setdefault(run.label, []).append(run)
    return groups


class Curve(NamedTuple):
    """A series per round over seeds: its mean, its sample deviation and the number of seeds that have it."""

    rounds: NDArray[np.int64]
    mean: Array
    deviation: Array
    seeds: NDArray[np.int64]


def curve(seeds: Sequence[RunRecords], series: Series) -> Curve:
    """A series over the seeds of one configuration; unknown values are left out."""
    found = [series(run) for run in seeds]
    rounds = np.concatenate([np.asarray(numbers, np.int64) for numbers, _ in found])
    heights = np.concatenate([values for _, values in found])
    known = np.isfinite(heights)
    every, at, counts = np.unique(rounds[known], return_inverse=True, return_counts=True)
    centers = np.bincount(at, heights[known], len(every)) / counts
    squares = np.bincount(at, (heights[known] - centers[at]) ** 2, len(every))
    return Curve(every, centers, np.sqrt(squares / np.maximum(counts - 1, 1)), counts)


def band(runs: Sequence[RunRecords], series: Series, signed: bool = False) -> list[Row]:
    """Mean and deviation over seeds of a series per round, for each label; of many rounds the peaks are kept.

    Unless unbounded, the values are shares, whose band is clipped to [0, 1].
    """
    rows, changing = [], any(phase_starts(run) for run in runs)
    for label, seeds in by_label(runs).items():
        found, begin = curve(seeds, series), [1, *phase_starts(seeds[0])]
        for index in with_peaks(found.mean, 4 * MOST_POINTS):
            center, spread = float(found.mean[index]), float(found.deviation[index])
            rows.append(
                {
                    "run": label,
                    "round": int(found.rounds[index]),
                    "mean": center,
                    "low": center - spread if signed else max(0.0, center - spread),
                    "high": center + spread if signed else min(1.0, center + spread),
                    "seeds": int(found.seeds[index]),
                    **(
                        {"began": begin[bisect_right(begin, int(found.rounds[index])) - 1]}
                        if changing
                        else {}
                    ),
                }
            )
    return rows


def with_peaks(heights: Array, most: int) -> list[int]:
    """The positions of at most this many values: the first, the last, and of each stretch the extremes."""
    if len(heights) <= most:
        return list(range(len(heights)))
    kept = {0, len(heights) - 1}
    stretches = np.array_split(np.arange(1, len(heights) - 1), (most - 2) // 2)
    for stretch in stretches:
        inside = heights[stretch]
        kept |= {int(stretch[inside.argmin()]), int(stretch[inside.argmax()])}
    return sorted(kept)


def kept_classes(runs: Sequence[RunRecords], like: RunRecords) -> list[int]:
    """The classes shown for each run: all, or the forty that lose most per round.

    Runs with equally many classes show the same ones, chosen by the first of them.
    """
    first = next(run for run in runs if run.classes == like.classes)
    if not len(first.per_class):
        return list(range(min(first.classes, MOST_CLASSES)))
    lost = forgetting.known_mean(first.lost_per_class, axis=0)
    order = np.argsort(-np.nan_to_num(lost, nan=-1.0), kind="stable")
    return sorted(order[:MOST_CLASSES].tolist())


def first_seeds(runs: Sequence[RunRecords]) -> dict[str, tuple[RunRecords, list[int]]]:
    """The first seed of each label, and the classes shown for it."""
    return {label: (seeds[0], kept_classes(runs, seeds[0])) for label, seeds in by_label(runs).items()}


def probed(runs: Sequence[RunRecords], probe: str, most: int = MOST_PROBES) -> list[int]:
    """The rounds of the slider: those in which every label was probed, thinned."""
    rounds = [{int(record["round"]) for record in seeds[0].probe(probe)} for seeds in by_label(runs).values()]
    measured = [found for found in rounds if found]
    return thinned(sorted(set.intersection(*measured)), most) if measured else []


def band_and_line(rows: Sequence[Row], title: str, zero: bool, share: bool = True) -> Any:
    """A line of means over a band of one standard deviation, for each run."""
    labels, exact = run_labels(rows), ".1%" if share else ".4~g"
    base = alt.Chart(table(rows)).encode(round_axis())
    hover = [
        alt.Tooltip("run:N"),
        alt.Tooltip("round:Q"),
        alt.Tooltip("mean:Q", title=title, format=exact),
        alt.Tooltip("low:Q", title="mean - deviation", format=exact),
        alt.Tooltip("high:Q", title="mean + deviation", format=exact),
        alt.Tooltip("seeds:Q"),
    ]
    height = alt.Y(
        "mean:Q", title=title, axis=alt.Axis(format="%" if share else ".4~g"), scale=alt.Scale(zero=zero)
    )
    strip = phase_strip(rows)
    color = run_color(labels, above=24 if strip else 0)
    layers = [
        base.mark_area(opacity=0.18).encode(alt.Y("low:Q", title=title), alt.Y2("high:Q"), color),
        base.mark_line().encode(height, color),
        hover_points(base.encode(height, color), hover),
    ]
    return alt.layer(*strip, *layers)


def accuracy_key() -> alt.Legend:
    """The legend of cells that are colored by accuracy."""
    return alt.Legend(title="accuracy", format=".0%", orient="bottom")

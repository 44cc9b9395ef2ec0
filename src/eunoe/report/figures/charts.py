"""Chart building shared by the figures: types, data, colors, axes, tooltips, panels, slider and curves."""

import csv
import io
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import altair as alt

from eunoe.core.tasks import Task
from eunoe.report.figures.series import Row, group_by_label
from eunoe.report.theme import PANEL
from eunoe.store.run_records import RunRecords, common_task

SHARE = alt.Scale(domain=[0, 1])
PERCENT = alt.Axis(format="%")
NO_GRID = alt.Axis(grid=False)
# Pixels above a curve between which the strip of phases lies.
STRIP_TOP, STRIP_BOTTOM = -16, -4


@dataclass(frozen=True)
class Display:
    """What all figures of a report share: the task with its names, and the labels of all runs."""

    task: type[Task]
    labels: Sequence[str]

    @classmethod
    def of(cls, runs: Sequence[RunRecords]) -> "Display":
        return cls(common_task([run.task for run in runs]), list(group_by_label(runs)))

    def run_color(
        self, rows: Sequence[Row], symbol: str = "stroke", legend: bool = True, above: int = 0
    ) -> alt.Color:
        """Color each run as in every other figure; the legend leaves room `above` the figure."""
        shown = list(by_run(rows))
        domain = list(dict.fromkeys([*self.labels, *shown]))
        look: dict[str, Any] = {"symbolType": symbol, "symbolStrokeWidth": 3, "symbolOpacity": 1}
        look |= {"offset": above} if above else {}
        look |= {"values": shown} if len(domain) > len(shown) else {}
        key = alt.Legend(title=None, orient="top", columns=2, labelLimit=260, **look)
        scale = alt.Scale(domain=domain, range="category")
        return alt.Color("run:N", scale=scale, legend=key if legend and len(shown) > 1 else None)

    def unit_color(self) -> alt.Color:
        """Color cells by the metric of a class, label or client."""
        key = alt.Legend(title=self.task.unit_metric, format=".0%", orient="bottom")
        return alt.Color("accuracy:Q", scale=SHARE, legend=key)

    def unit_tips(self) -> list[alt.Tooltip]:
        """Name the class, label or client of a cell and its metric."""
        return [alt.Tooltip("class:N", title=self.task.unit), tip("accuracy", self.task.unit_metric)]


@dataclass(frozen=True)
class Figure:
    """A chart with its title and caption, which are also its text for readers who cannot see it."""

    title: str
    caption: str
    chart: Any
    wide: bool = True
    name: str = ""
    section: str = ""
    # The round of each position of the slider, if there is one.
    rounds: Sequence[int] = ()

    @property
    def text(self) -> str:
        """The text alternative of the chart."""
        return f"{self.title}. {self.caption}"


class Kind(NamedTuple):
    """A kind of figure: `rows` selects its data, `draw` makes it; it is left out unless `shows` is true."""

    name: str
    rows: Callable[[Sequence[RunRecords]], list[Row]]
    draw: Callable[[Sequence[Row], Display], Figure]
    shows: Callable[[Sequence[Row]], bool] = bool


def table(rows: Sequence[Row]) -> alt.InlineData:
    """Pack rows as CSV, a fifth of the size of JSON objects, for the data of a chart."""
    columns = list(rows[0]) if rows else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_short(row[column]) for column in columns] for row in rows])
    kinds = {key: "string" if any(isinstance(row[key], str) for row in rows) else "number" for key in columns}
    return alt.InlineData(values=text.getvalue(), format=alt.CsvDataFormat(type="csv", parse=kinds))


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return "" if value is None else value


def by_run(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Group rows by the label of their run, in order of first appearance."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["run"], []).append(row)
    return groups


def class_names(rows: Sequence[Row]) -> list[str]:
    """Return the names of the classes, in order."""
    return list(dict.fromkeys(row["class"] for row in rows))


def after_first_round(rows: Sequence[Row]) -> list[Row]:
    """Return the rows after round 1, if any: as in the summary, the untrained model is not counted."""
    return [row for row in rows if row["round"] > 1] or list(rows)


def mean_of(rows: Sequence[Row], field: str) -> float:
    """Return the mean of a field."""
    return float(sum(row[field] for row in rows)) / len(rows)


def over_rounds(rows: Sequence[Row]) -> bool:
    """Return whether rows are of several rounds: a line shows nothing of one."""
    return len({row["round"] for row in rows}) > 1


def capitalize(text: str) -> str:
    """Capitalize the first letter and keep the others."""
    return text[:1].upper() + text[1:]


def tip(field: str, title: str | None = None, form: str = ".1%") -> alt.Tooltip:
    """Show a number in a tooltip, by default as a percentage."""
    return alt.Tooltip(f"{field}:Q", title=title or field, format=form)


def hover_points(base: Any, tips: Sequence[Any]) -> Any:
    """Add large invisible points, which make tooltips easy to hit."""
    return base.mark_point(opacity=0, size=160).encode(tooltip=list(tips))


def line(base: Any, tips: Sequence[Any]) -> Any:
    """Draw lines with tooltips."""
    return alt.layer(base.mark_line(), hover_points(base, tips))


def round_axis(field: str = "round:Q", grid: bool = True, **options: Any) -> alt.X:
    """Make a horizontal axis of whole rounds; fractional ticks of short runs get no label."""
    look: dict[str, Any] = {} if grid else {"grid": False}
    whole = alt.Axis(tickMinStep=1, format="d", labelExpr="datum.value % 1 ? '' : datum.label", **look)
    return alt.X(field, title="round", axis=whole, **options)


def run_filter(label: str) -> str:
    """Select one run's rows in Vega's expression language."""
    return f"datum.run === {json.dumps(label)}"


def side_by_side(panels: Sequence[Any], rows: Sequence[Row], columns: int | None = None) -> Any:
    """Lay out panels on shared data, three per row unless fewer fill the rows better."""
    default = 2 if len(panels) in (1, 2, 4) else 3
    return alt.concat(*panels, columns=columns or default, spacing=24, data=table(rows))


def panel_per_run(
    rows: Sequence[Row], panel: Callable[[Any], Any], width: float = 1.5 * PANEL, height: Any = PANEL
) -> Any:
    """Lay out one panel per run; `panel` draws it on a chart of the run's rows."""
    bases = {run: alt.Chart().transform_filter(run_filter(run)) for run in by_run(rows)}
    panels = [panel(base).properties(width=width, height=height, title=run) for run, base in bases.items()]
    return side_by_side(panels, rows)


def slider_rounds(rows: Sequence[Row]) -> list[int]:
    """Return the round of each position of the slider."""
    return [number for _, number in sorted({(row["probe"], row["round"]) for row in rows})]


def round_slider(rows: Sequence[Row]) -> alt.Parameter:
    """Make a slider over the probed rounds, named `probe`."""
    rounds = slider_rounds(rows)
    slider = alt.binding_range(min=0, max=len(rounds) - 1, step=1, name="Probed round ")
    # It starts at three tenths of the run, as in the WSM paper.
    start = min(range(len(rounds)), key=lambda at: abs(rounds[at] - 0.3 * rounds[-1]))
    return alt.param(name="probe", value=start, bind=slider)


def band_and_line(
    rows: Sequence[Row], display: Display, title: str, zero: bool = False, share: bool = True
) -> Any:
    """Draw each run's mean as a line over a band of one standard deviation."""
    exact = ".1%" if share else ".4~g"
    base = alt.Chart(table(rows)).encode(round_axis())
    tips, band = [tip("mean", title, exact)], []
    axis, scale = alt.Axis(format="%" if share else ".4~g"), alt.Scale(zero=zero)
    height = alt.Y("mean:Q", title=title, axis=axis, scale=scale)
    strip = phase_strip(rows)
    color = display.run_color(rows, above=24 if strip else 0)
    if has_band(rows):
        tips += [tip("low", "mean - deviation", exact), tip("high", "mean + deviation", exact)]
        tips += [alt.Tooltip("seeds:Q")]
        ends = alt.Y("low:Q", title=title), alt.Y2("high:Q")
        band = [base.mark_area(opacity=0.18).encode(*ends, color)]
    return alt.layer(
        *strip,
        *band,
        base.mark_line().encode(height, color),
        hover_points(base.encode(height, color), ["run:N", "round:Q", *tips]),
    )


def has_band(rows: Sequence[Row]) -> bool:
    """Return whether a mean is over several seeds."""
    return any(row["seeds"] > 1 for row in rows)


def phase_strip(rows: Sequence[Row]) -> list[Any]:
    """Make layers that show the phases of a stream above a curve; none without a stream.

    A dashed line marks where a phase begins. Runs whose phases differ have the lines only.
    """
    starts: dict[str, set[int]] = {}
    for row in rows:
        if row.get("began", 1) > 1:
            starts.setdefault(row["run"], set()).add(row["began"])
    if not starts:
        return []
    begin = sorted(set().union(*starts.values()))
    lines = alt.Chart(table([{"round": first} for first in begin]))
    layers = [lines.mark_rule(strokeDash=[3, 3], opacity=0.5).encode(alt.X("round:Q"))]
    if any(own != set(begin) for own in starts.values()):
        return layers
    last = max(row["round"] for row in rows)
    ends = [min(1, *(row["round"] for row in rows)), *begin, max(last, begin[-1] + 1)]
    phases = [
        {"phase": f"phase {number}", "round": first, "until": until}
        | {"middle": (first + until) / 2, "even": number % 2}
        for number, (first, until) in enumerate(pairwise(ends), start=1)
    ]
    strip = alt.Chart(table(phases))
    bars = strip.mark_rect(color="#888888").encode(
        alt.X("round:Q"),
        alt.X2("until:Q"),
        y=alt.value(STRIP_TOP),
        y2=alt.value(STRIP_BOTTOM),
        opacity=alt.Opacity("even:N", scale=alt.Scale(domain=[0, 1], range=[0.2, 0.4]), legend=None),
        tooltip=["phase:N", alt.Tooltip("round:Q", title="from round")],
    )
    # The names of many phases would overlap.
    names = strip.mark_text(fontSize=10).encode(
        alt.X("middle:Q"),
        y=alt.value((STRIP_TOP + STRIP_BOTTOM) / 2),
        text=alt.Text("phase:N") if len(phases) <= 6 else alt.value(""),
    )
    return [*layers, bars, names]

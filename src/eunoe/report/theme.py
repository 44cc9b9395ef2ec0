"""The theme of all figures: colors, sizes, and how their data are packed.

Colors are safe for color-blind readers: runs have Okabe and Ito's palette (without black and yellow, which
vanish on a dark or a white background), accuracies have viridis, and differences go from blue (gained) to
orange (forgotten).
"""

import csv
import io
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import altair as alt

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A6FAC", "#8C6D31")
DARK_PALETTE = ("#56B4E9", "#F0803C", "#2FBF98", "#E39AC4", "#F0B840", "#3D8FD1", "#A79BD8", "#C2A15E")
GAINED, FORGOTTEN = "#2166ac", "#d9730d"
SCREEN_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
# Fonts of equal width on every machine, so that no text is cut off at the edge of a picture.
PICTURE_FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"
WIDTH, HEIGHT, PANEL = 320, 200, 200

# Limits on what a report shows, so that long runs with many clients and classes still open fast.
MOST_POINTS, MOST_PROBES, MOST_CLIENTS, MOST_CLASSES, MOST_CELLS = 120, 12, 20, 40, 25_000

Row = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """A chart with its title, caption and text alternative."""

    name: str
    title: str
    caption: str
    chart: Any
    section: str
    panels: int = 1
    rounds: Sequence[int] = ()


def described(chart: Any, text: str) -> Any:
    """The chart with a text alternative for screen readers."""
    return chart.properties(description=text)


def table(rows: Sequence[Row]) -> alt.InlineData:
    """Rows as a chart's data, packed as CSV: a fifth of the size of JSON objects, nothing to validate."""
    columns = list(rows[0]) if rows else []
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([[_short(row[column]) for column in columns] for row in rows])
    kinds = {
        column: "string" if any(isinstance(row[column], str) for row in rows) else "number"
        for column in columns
    }
    return alt.InlineData(values=text.getvalue(), format=alt.CsvDataFormat(type="csv", parse=kinds))


def _short(value: Any) -> Any:
    if isinstance(value, float):
        return "" if math.isnan(value) else f"{value:.4g}"
    return "" if value is None else value


def thinned(items: Sequence[Any], most: int) -> list[Any]:
    """At most this many items, evenly spaced, including the first and the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(index * (len(items) - 1) / (most - 1))] for index in range(most)]


# The labels of all runs of a report, which not every figure has.
_EVERY: ContextVar[Sequence[str]] = ContextVar("labels of all runs", default=())


@contextmanager
def colored_alike(labels: Sequence[str]) -> Iterator[None]:
    """Within the block, each of these runs has its color in every figure, whichever runs a figure has."""
    before = _EVERY.set(labels)
    try:
        yield
    finally:
        _EVERY.reset(before)


def run_color(
    labels: Sequence[str], symbol: str = "stroke", legend: bool = True, above: int = 0
) -> alt.Color:
    """The color of each run, the same in every figure; the legend leaves room `above` the figure."""
    look: dict[str, Any] = {"symbolType": symbol, "symbolStrokeWidth": 3, "symbolOpacity": 1}
    look |= {"offset": above} if above else {}
    shown = legend and len(labels) > 1
    domain = list(dict.fromkeys([*_EVERY.get(), *labels]))
    if len(domain) > len(labels):
        look["values"] = list(labels)
    key = alt.Legend(title=None, orient="top", columns=2, labelLimit=260, **look) if shown else None
    return alt.Color("run:N", scale=alt.Scale(domain=domain, range="category"), legend=key)


def config(ink: str, dark: bool = False, font_size: int = 12, font: str = SCREEN_FONT) -> dict[str, Any]:
    """The Vega-Lite configuration; `ink` colors text and lines ("currentColor" follows the report)."""
    middle = "#26292f" if dark else "#f4f4f2"
    text = {"labelColor": ink, "titleColor": ink, "labelFont": font, "titleFont": font}
    small = {"labelFontSize": font_size - 1, "titleFontSize": font_size - 1}
    return {
        "background": "transparent",
        "font": font,
        "view": {"stroke": None, "continuousWidth": WIDTH, "continuousHeight": HEIGHT},
        "axis": {
            **text,
            **small,
            "titleFontWeight": "normal",
            "titleOpacity": 0.8,
            "domainColor": ink,
            "domainOpacity": 0.35,
            "tickColor": ink,
            "tickOpacity": 0.35,
            "gridColor": ink,
            "gridOpacity": 0.1,
            "labelOverlap": True,
        },
        "legend": {
            **text,
            **small,
            "titleFontWeight": "normal",
            "gradientLength": 120,
            "gradientThickness": 10,
        },
        "header": {**text, "labelFontSize": font_size, "labelFontWeight": 600, "labelLimit": 300},
        "title": {
            "color": ink,
            "font": font,
            "fontSize": font_size,
            "fontWeight": 600,
            "anchor": "start",
            "subtitleColor": ink,
            "subtitleFontSize": font_size - 1,
            "subtitleFont": font,
            "limit": 0,
        },
        "line": {"strokeWidth": 2, "strokeJoin": "round"},
        "rule": {"color": ink},
        "text": {"color": ink, "font": font, "fontSize": font_size - 2},
        "range": {
            "heatmap": {"scheme": "viridis"},
            "ramp": {"scheme": "viridis"},
            "diverging": [GAINED, "#92b9d8" if not dark else "#35506f", middle]
            + (["#f0b27a"] if not dark else ["#8a5320"])
            + [FORGOTTEN],
            "category": list(DARK_PALETTE if dark else PALETTE),
        },
    }

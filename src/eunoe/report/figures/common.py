"""What several figures need: the runs among the rows, one run's rows, hover points, the slider."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.report.theme import Row


def run_labels(rows: Sequence[Row]) -> list[str]:
    """The labels of the runs, in order."""
    return list(dict.fromkeys(row["run"] for row in rows))


def class_names(rows: Sequence[Row]) -> list[str]:
    """The names of the classes, in order."""
    return list(dict.fromkeys(row["class"] for row in rows))


def of_run(label: str) -> str:
    """A filter for one run's rows, in Vega's expression language; any label is safe in it."""
    safe = "".join(char if char.isascii() and char.isalnum() else _escaped(char) for char in label)
    return f"datum.run === '{safe}'"


def _escaped(char: str) -> str:
    pairs = char.encode("utf-16-be")
    return "".join(f"\\u{pairs[at]:02x}{pairs[at + 1]:02x}" for at in range(0, len(pairs), 2))


def hover_points(base: Any, hover: Sequence[Any]) -> Any:
    """Wide invisible points, so that a value shows without aiming at a thin line."""
    return base.mark_point(opacity=0, size=160).encode(tooltip=list(hover))


def round_axis(field: str = "round:Q") -> alt.X:
    """The horizontal axis of curves: whole rounds."""
    return alt.X(field, title="round", axis=whole_rounds())


def whole_rounds(**look: Any) -> alt.Axis:
    """An axis of rounds; Vega puts ticks between two rounds that stand alone, which get no label."""
    return alt.Axis(tickMinStep=1, format="d", labelExpr="datum.value % 1 ? '' : datum.label", **look)


def slider_rounds(rows: Sequence[Row]) -> list[int]:
    """The round of each position of the slider."""
    return [number for _, number in sorted({(row["probe"], row["round"]) for row in rows})]


def slider_start(rows: Sequence[Row]) -> int:
    """Where the slider stands at first: at three tenths of the run, where the WSM paper looks."""
    rounds = slider_rounds(rows)
    return min(range(len(rounds)), key=lambda at: abs(rounds[at] - 0.3 * rounds[-1]))


def round_slider(rows: Sequence[Row]) -> alt.Parameter:
    """A slider over the probed rounds, named `probe`."""
    slider = alt.binding_range(min=0, max=len(slider_rounds(rows)) - 1, step=1, name="Probed round ")
    return alt.param(name="probe", value=slider_start(rows), bind=slider)


def columns_for(panels: int) -> int:
    """How many panels stand side by side."""
    return 2 if panels in (1, 2, 4) else 3


def in_points(values: Sequence[float]) -> str:
    """The mean of some shares, in points."""
    return f"{100 * sum(values) / len(values):.1f} points"

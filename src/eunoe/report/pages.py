"""Pages with a table and figures: of a leaderboard, and of the statistics of partitions."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import altair as alt

from eunoe.analysis.leaderboard import Leaderboard
from eunoe.analysis.tables import Table
from eunoe.core.tasks import Classification, Task
from eunoe.data.statistics import PartitionNumbers
from eunoe.report.figures import charts
from eunoe.report.figures.charts import Figure
from eunoe.report.html import write_table_page
from eunoe.report.theme import HEIGHT, WIDTH


def write_leaderboard(board: Leaderboard, path: Path) -> Path:
    """Write the page of a leaderboard and return its path."""
    lead = f"{board.title}: methods against forgetting, each tuned with the same number of trials."
    figures = [_gains_by_setting(board), _accuracy_and_forgetting(board)]
    return write_table_page(path, "Leaderboard", board.title, lead, board.table(), figures)


def _gains_by_setting(board: Leaderboard) -> Figure:
    order = [each.name for each in board.standings]
    rows = [
        {"entry": each.name, "setting": setting, "gain": 100 * gain}
        for each in board.standings
        for setting, gain in each.by_setting.items()
    ]
    most = max((abs(gain) for each in board.standings for gain in each.by_setting.values()), default=0.01)
    scale = alt.Scale(scheme="blueorange", reverse=True, domain=[-100 * most, 100 * most])
    base = alt.Chart(charts.table(rows)).encode(
        alt.X(
            "setting:N", sort=list(board.settings), title=None, axis=alt.Axis(labelAngle=-35, labelLimit=260)
        ),
        alt.Y("entry:N", sort=order, title=None),
    )
    cells = base.mark_rect().encode(
        alt.Color("gain:Q", scale=scale, title="points"),
        tooltip=["entry:N", "setting:N", alt.Tooltip("gain:Q", format="+.1f")],
    )
    text = base.mark_text(fontSize=10).encode(alt.Text("gain:Q", format="+.1f"))
    chart = (cells + text).properties(width=WIDTH * 2, height=22 * len(order))
    return Figure(
        "Gain in each setting",
        "Mean difference to tuned FedAvg in points of test accuracy, on the same seeds.",
        chart,
        name="gains",
        section="By setting",
    )


def _accuracy_and_forgetting(board: Leaderboard) -> Figure:
    rows = [
        {
            "entry": each.name,
            "gain": 100 * each.gain.mean,
            "forgetting": 100 * each.sent_forgetting,
            "bytes": each.bytes,
            "compute": each.samples,
        }
        for each in board.standings
    ]
    base = alt.Chart(charts.table(rows)).encode(
        alt.X("forgetting:Q", title="round forgetting of the model sent to clients, points"),
        alt.Y("gain:Q", title="gain over FedAvg, points"),
    )
    shown = "gain", "forgetting", "bytes", "compute"
    tips = ["entry:N", *(alt.Tooltip(f"{key}:Q", format=".1f") for key in shown)]
    points = base.mark_circle(opacity=0.8).encode(alt.Size("bytes:Q", title="bytes"), tooltip=tips)
    names = base.mark_text(align="left", dx=8, fontSize=10).encode(text="entry:N")
    chart = (points + names).properties(width=WIDTH * 2, height=1.5 * HEIGHT)
    return Figure(
        "Accuracy against forgetting and cost",
        "Means over all settings and seeds. Larger circles send more bytes than FedAvg.",
        chart,
        name="tradeoff",
        section="Trade-off",
    )


NOTE = (
    "Label entropy is 0 for a client with one class and largest for an even mix. The distance between the "
    "class shares of a client and of all clients together ranges from 0 (equal) to 1 (no class in common). "
    "Both are means over the clients"
)


def size_lines(clients: int, samples: int, size_mean: float, size_min: int, size_max: int) -> dict[str, str]:
    """Format the sizes of clients for a table."""
    varied = f"{size_mean:,.1f} ({size_min:,} to {size_max:,})"
    return {
        "clients": f"{clients:,}",
        "samples": f"{samples:,}",
        "samples per client": f"{size_min:,} each" if size_min == size_max else varied,
    }


def number_lines(
    numbers: PartitionNumbers, classes: int, task: type[Task] = Classification
) -> dict[str, str]:
    """Format the statistics of a partition for a table."""
    of_each = f"{numbers.classes_mean:.1f} ({numbers.classes_min} to {numbers.classes_max})"
    return {
        **size_lines(numbers.clients, numbers.samples, numbers.size_mean, numbers.size_min, numbers.size_max),
        f"{task.units} per client": of_each,
        "label entropy, bits": f"{numbers.entropy_mean:.2f} of {math.log2(classes):.2f}",
        "distance to overall mix": f"{numbers.distance_mean:.2f}",
        f"single-{task.unit} clients": f"{numbers.single_class_share:.0%}",
    }


def write_partition_report(path: Path, title: str, notes: str, table: Table, chart: Any) -> Path:
    """Write the statistics of each partition and their figure as one HTML file and return its path."""
    caption = "Move the pointer over a bar for its numbers."
    figure = Figure(title, caption, chart, name="partition", section="Class shares")
    return write_table_page(path, "Partition", title, notes, replace(table, note=NOTE), [figure])

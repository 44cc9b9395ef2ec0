"""The partition report: one HTML file with the statistics of partitions and their figure."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

from eunoe.analysis.tables import Table
from eunoe.core.tasks import Classification, Task
from eunoe.data.statistics import PartitionNumbers
from eunoe.report.figures.charts import Figure
from eunoe.report.html import write_table_page

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

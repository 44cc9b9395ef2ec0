"""The partition report: one HTML file with the statistics of partitions and their figure."""

import math
import re
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from eunoe.analysis.tables import Table
from eunoe.core.tasks import Classification, Task
from eunoe.data.statistics import PartitionNumbers

if TYPE_CHECKING:
    import altair as alt

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  color: #222; background: #fff; }
h1 { font-size: 1.5rem; } .wide { overflow-x: auto; }
table { border-collapse: collapse; margin: 1rem 0 2rem; }
th, td { padding: .3rem .9rem; border-bottom: 1px solid #ddd; text-align: right; font-weight: normal; }
thead th { font-weight: 600; } tbody th, thead th:first-child { text-align: left; }
p { color: #555; } svg { width: 100%; height: auto; }
"""

MEANING = (
    "Label entropy is 0 for a client with one class and largest for an even mix. The distance between the "
    "class shares of a client and of all clients together ranges from 0 (equal) to 1 (no class in common). "
    "Both are means over the clients."
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


def partition_report(
    title: str, notes: str, lines: Mapping[str, Mapping[str, str]], figure: "alt.TopLevelMixin"
) -> str:
    """Return the report as HTML: a column of statistics per partition, and the figure with tooltips."""
    import vl_convert

    drawn: str = vl_convert.vegalite_to_svg(figure.to_json())
    # Bars carry their values as a label for screen readers; as a title they are also shown on hover.
    drawn = re.sub(r'<path (aria-label="([^"]*)"[^>]*)/>', r"<path \1><title>\2</title></path>", drawn)
    names = next(iter(lines.values()))
    table = Table(["", *lines], [[name, *(column[name] for column in lines.values())] for name in names])
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{escape(title)}</title><style>{STYLE}</style></head>
<body><h1>{escape(title)}</h1>
<p>{escape(notes)}</p>
<div class="wide">{table.html()}</div>
<p>{MEANING}</p>
{drawn}
</body></html>
"""

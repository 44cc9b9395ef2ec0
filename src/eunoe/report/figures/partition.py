"""What each client holds."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from eunoe.core.tasks import Regression
from eunoe.report.figures.common import SETTING, Kind, always, by_label
from eunoe.report.partition_figure import partition_figure
from eunoe.report.theme import MOST_CLASSES, MOST_CLIENTS, Row
from eunoe.store.run_records import RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Train label counts of the first clients; each of up to four partitions, under its first label."""
    found, seen = list[Row](), list[Any]()
    for label, seeds in by_label(runs).items():
        counts = seeds[0].label_counts
        if seeds[0].task is Regression:
            # Numbers have no shares; how many samples a client has is in the table of clients.
            continue
        if counts is not None and not any(np.array_equal(counts, other) for other in seen):
            seen.append(counts)
            first = counts[: 2 * MOST_CLIENTS if counts.shape[1] <= MOST_CLASSES else 10].astype(np.int64)
            found.append({"run": label, "counts": first, "names": seeds[0].names(counts.shape[1])})
    return found[:4]


def draw(rows: Sequence[Row]) -> Any:
    """Each client's classes as stacked bars, one panel per partition."""
    clients = min(len(row["counts"]) for row in rows)
    panels = {row["run"]: row["counts"][:clients] for row in rows}
    # Different data share a legend, so their classes go by number.
    names = rows[0]["names"] if all(row["names"] == rows[0]["names"] for row in rows) else None
    return partition_figure(panels, range(clients), names, columns=1)


FIGURE = Kind(
    "partition",
    SETTING,
    2,
    always("What each client holds: few colors in a bar mean few classes to learn from"),
    "Share of each class in the train labels of the first clients.",
    rows,
    draw,
)

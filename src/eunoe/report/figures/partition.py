"""The class mix of each client, as stacked bars."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import altair as alt
import numpy as np
from numpy.typing import NDArray

from eunoe.core.tasks import LABELED, Classification, Task
from eunoe.report.figures.charts import Display, Figure, Kind, capitalize
from eunoe.report.figures.series import Row, group_by_label
from eunoe.report.theme import MOST_CLASSES, MOST_CLIENTS
from eunoe.store.run_records import RunRecords

# Paul Tol's muted colors, safe for color-blind readers, alternating light and dark.
COLORS = (
    *("#332288", "#88CCEE", "#117733", "#DDCC77", "#AA4499"),
    *("#44AA99", "#882255", "#999933", "#CC6677", "#D0D0D0"),
)


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return train label counts of the first clients, for up to four different partitions."""
    rows, partitions = list[Row](), list[Any]()
    for label, (run, *_) in group_by_label(runs).items():
        counts = run.label_counts
        # Without labels there are no shares; the table of clients has their sizes.
        if counts is None or run.task.name not in LABELED:
            continue
        if not any(np.array_equal(counts, other) for other in partitions):
            partitions.append(counts)
            first = counts[: 2 * MOST_CLIENTS if counts.shape[1] <= MOST_CLASSES else 10].astype(np.int64)
            rows.append({"run": label, "counts": first, "names": run.names(counts.shape[1])})
    return rows[:4]


def draw(rows: Sequence[Row], display: Display) -> Figure:
    """Draw the classes of each client, one panel per partition."""
    clients, task = min(len(row["counts"]) for row in rows), display.task
    panels = {row["run"]: row["counts"][:clients] for row in rows}
    # Different data sets share a legend, so their classes are numbered.
    names = rows[0]["names"] if all(row["names"] == rows[0]["names"] for row in rows) else None
    chart = partition_chart(panels, range(clients), names, columns=1, task=task)
    return Figure(
        f"{capitalize(task.unit)} mix of each client: few colors mean few {task.units} to learn from",
        f"Share of each {task.unit} in the train labels of the first clients.",
        chart,
    )


def partition_chart(
    panels: Mapping[str, NDArray[Any]],
    clients: Sequence[int],
    class_names: Sequence[str] | None = None,
    columns: int = 2,
    task: type[Task] = Classification,
) -> Any:
    """Draw the class mix of clients, one panel per partition.

    A panel has the label counts [clients, classes] of these clients. Up to ten classes have a color each;
    more have a scale from dark to light.
    """
    classes = max(counts.shape[-1] for counts in panels.values())
    names = list(class_names) if class_names is not None else [str(number) for number in range(classes)]
    data, sizes = _bars(panels, clients, names, task)
    few = classes <= len(COLORS)
    colors: dict[str, Any] = (
        {"domain": names[:classes], "range": list(COLORS[:classes])} if few else {"scheme": "viridis"}
    )
    # Stacked in the order of the legend: names from the first, a scale from the largest number.
    order: Literal["ascending", "descending"] = "descending" if few else "ascending"
    width = max(300 if len(panels) > 1 else 480, min(16 * len(clients), 960))
    # A gap in the background color separates similar neighbors; thin bars have no room for it.
    gap = 0.6 if width / len(clients) > 8 else 0
    labels = alt.Axis(labelAngle=0, labelOverlap=True, labelSeparation=4)
    axis, scale = alt.Axis(format="%", tickCount=4, grid=False), alt.Scale(domain=[0, 1], nice=False)
    chart: Any = alt.Chart(alt.InlineData(values=data)).mark_bar(stroke="white", strokeWidth=gap)
    chart = chart.encode(
        alt.X("client:O", title="Client", sort=None, axis=labels),
        alt.Y("share:Q", title="Share of samples", stack="zero", scale=scale, axis=axis),
        alt.Color("class:N" if few else "number:Q", scale=alt.Scale(**colors), title=capitalize(task.unit)),
        alt.Order("number:Q", sort=order),
        alt.Tooltip("label:N"),
        alt.Description("label:N"),
    ).properties(width=width, height=180)
    text = f"{capitalize(task.unit)} shares of {len(clients)} clients. " + " ".join(
        f"{name}: {sizes[name]:.1f} {task.units} per client." for name in panels
    )
    if len(panels) == 1:
        return chart.properties(title=next(iter(panels)), description=text)
    facet = alt.Facet("panel:N", sort=list(panels), title=None)
    return chart.facet(facet=facet, columns=columns).properties(description=text)


def _bars(
    panels: Mapping[str, NDArray[Any]], clients: Sequence[int], names: Sequence[str], task: type[Task]
) -> tuple[list[Row], dict[str, float]]:
    """Return a row per client and class that it has, and the mean number of classes of each panel."""
    rows, sizes = [], {}
    for panel, counts in panels.items():
        sizes[panel] = float((counts > 0).sum(1).mean())
        for client, own in zip(clients, counts, strict=True):
            for number in np.flatnonzero(own).tolist():
                name, share = names[number], float(own[number] / own.sum())
                label = f"Client {client}: {own[number]:,} of {task.unit} {name} ({share:.1%})"
                bar = {"panel": panel, "client": int(client), "class": name, "number": number}
                rows.append({**bar, "share": share, "label": label})
    return rows, sizes


KIND = Kind("partition", rows, draw)

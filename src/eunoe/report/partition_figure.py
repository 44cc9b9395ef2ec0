"""The partition figure of the papers: which classes each of some clients has, as stacked bars."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from eunoe.errors import InputError

if TYPE_CHECKING:
    import altair as alt

# Paul Tol's muted colors, safe for color-blind readers, alternating light and dark.
COLORS = (
    *("#332288", "#88CCEE", "#117733", "#DDCC77", "#AA4499"),
    *("#44AA99", "#882255", "#999933", "#CC6677", "#D0D0D0"),
)


def partition_figure(
    panels: Mapping[str, NDArray[Any]],
    clients: Sequence[int],
    class_names: Sequence[str] | None = None,
    columns: int = 2,
) -> "alt.TopLevelMixin":
    """Bars of class shares, a bar for each client and a panel for each partition.

    A panel has the label counts [clients, classes] of the clients named. Up to ten classes have a color
    each; more run through one scale, dark to light.
    """
    import altair as alt

    rows, sizes = _rows(panels, clients, class_names)
    classes = max(counts.shape[1] for counts in panels.values())
    if classes <= len(COLORS):
        names = [_name(c, class_names) for c in range(classes)]
        color = alt.Color(
            "class:N", scale=alt.Scale(domain=names, range=list(COLORS[:classes])), title="Class"
        )
    else:
        color = alt.Color("number:Q", scale=alt.Scale(scheme="viridis"), title="Class")
    # Stacked in the order of the legend: names from the first, a scale from the largest number.
    downwards: Literal["ascending", "descending"] = "descending" if classes <= len(COLORS) else "ascending"
    # Bars as wide as the width allows, in panels that are not too narrow.
    width = max(300 if len(panels) > 1 else 480, min(16 * len(clients), 960))
    # A gap in the background color separates similar neighbors; thin bars have no room for it.
    gap = 0.6 if width / len(clients) > 8 else 0
    axis = alt.Axis(labelAngle=0, labelOverlap=True, labelSeparation=4)
    chart = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_bar(stroke="white", strokeWidth=gap)
        .encode(
            x=alt.X("client:O", title="Client", sort=None, axis=axis),
            y=alt.Y(
                "share:Q",
                title="Share of samples",
                stack="zero",
                scale=alt.Scale(domain=[0, 1], nice=False),
                axis=alt.Axis(format="%", tickCount=4, grid=False),
            ),
            color=color,
            order=alt.Order("number:Q", sort=downwards),
            tooltip=alt.Tooltip("label:N"),
            description=alt.Description("label:N"),
        )
        .properties(width=width, height=180)
    )
    text = f"Class shares of {len(clients)} clients. " + " ".join(
        f"{name}: {sizes[name]:.1f} classes per client." for name in panels
    )
    figure: alt.TopLevelMixin
    if len(panels) == 1:
        figure = chart.properties(title=next(iter(panels)), description=text)
    else:
        facet = alt.Facet("panel:N", sort=list(panels), title=None)
        figure = chart.facet(facet=facet, columns=columns).properties(description=text)
    return figure


def _rows(
    panels: Mapping[str, NDArray[Any]], clients: Sequence[int], class_names: Sequence[str] | None
) -> tuple[list[dict[str, Any]], dict[str, float]]:
    """A row for each class that a client has, and the mean number of classes of each panel."""
    rows, sizes = [], {}
    if not panels or not clients:
        raise InputError("a partition figure needs at least one partition and one client")
    for panel, counts in panels.items():
        if counts.ndim != 2 or len(counts) != len(clients):
            raise InputError(
                f"{len(clients)} clients have label counts {counts.shape} in {panel!r}; give a row each"
            )
        sizes[panel] = float((counts > 0).sum(1).mean())
        for client, row in zip(clients, counts, strict=True):
            for number in np.flatnonzero(row):
                name, samples, share = (
                    _name(int(number), class_names),
                    int(row[number]),
                    row[number] / row.sum(),
                )
                rows.append(
                    {
                        "panel": panel,
                        "client": int(client),
                        "class": name,
                        "number": int(number),
                        "share": float(share),
                        "label": f"Client {client}: {samples:,} of class {name} ({share:.1%})",
                    }
                )
    return rows, sizes


def _name(number: int, class_names: Sequence[str] | None) -> str:
    return class_names[number] if class_names is not None else str(number)

"""One client's model over time, beside what its data hold."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.report.figures.common import ACCURACY, WHICH, Kind, accuracy_key, class_names, kept_classes
from eunoe.report.theme import MOST_PROBES, PALETTE, PANEL, Row, described, table, thinned
from eunoe.store.run_records import RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Per-class accuracy over time, and label counts, of the client that took part most often."""
    run = runs[0]
    records = [record for record in run.probe("local_per_class") if record.get("counts")]
    taken = Counter(client for record in records for client in record["clients"])
    if not taken:
        return []
    client = max(taken, key=lambda name: (taken[name], -int(name)))
    mine = thinned([record for record in records if client in record["clients"]], 4 * MOST_PROBES)
    found, kept = list[Row](), kept_classes(runs, run)
    for record in mine:
        at = record["clients"].index(client)
        names = run.names(len(record["start"]))
        for c in kept:
            if (value := record["local"][at][c]) is not None:
                found.append(
                    {
                        "client": str(client),
                        "round": int(record["round"]),
                        "class": names[c],
                        "accuracy": float(value),
                        "labels": int(record["counts"][at][c]),
                    }
                )
    return found


def title(rows: Sequence[Row]) -> str:
    """How well the client's model knows the classes of its data, and how well the others."""
    held = [row["accuracy"] for row in rows if row["labels"]]
    others = [row["accuracy"] for row in rows if not row["labels"]]
    known = [f"{sum(held) / len(held):.0%} on the classes of its data"] if held else []
    known += [f"{sum(others) / len(others):.0%} on the others"] if others else []
    return f"What the model of client {rows[0]['client']} knows after training: {', '.join(known)}"


def draw(rows: Sequence[Row]) -> Any:
    """One client's per-class accuracy over time beside its label counts (Flashback paper, figure 8)."""
    names, client = class_names(rows), rows[0]["client"]
    axis = alt.Y("class:N", sort=names, title="class", axis=alt.Axis(grid=False))
    base = alt.Chart()
    seen = base.mark_rect().encode(
        alt.X("round:O", title="round of participation", axis=alt.Axis(labelAngle=0)),
        axis,
        alt.Color("accuracy:Q", scale=ACCURACY, legend=accuracy_key()),
        tooltip=["round:Q", "class:N", alt.Tooltip("accuracy:Q", format=".1%"), "labels:Q"],
    )
    held = base.mark_bar(color=PALETTE[0]).encode(
        alt.X("max(labels):Q", title="train labels"),
        alt.Y("class:N", sort=names, title=None, axis=alt.Axis(grid=False)),
        tooltip=["class:N", alt.Tooltip("max(labels):Q", title="train labels")],
    )
    size = max(PANEL, 9 * len(names))
    left = seen.properties(width=1.5 * PANEL, height=size, title=f"client {client}: accuracy of its model")
    right = held.properties(width=0.8 * PANEL, height=size, title="what its data hold")
    text = (
        f"Accuracy per class of client {client}'s model in each round it took part, beside its label counts."
    )
    return described(alt.concat(left, right, columns=2, spacing=24, data=table(rows)), text)


FIGURE = Kind(
    "one-client",
    WHICH,
    2,
    title,
    "The client that took part most often in the first run: its model's accuracy per class after each "
    "participation, beside its label counts.",
    rows,
    draw,
)

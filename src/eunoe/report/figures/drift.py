"""How far local training takes the models, and whether they agree on the way."""

from collections.abc import Sequence
from typing import Any

import altair as alt

from eunoe.metrics import forgetting
from eunoe.report.figures.common import (
    SETTING,
    Kind,
    always,
    by_label,
    hover_points,
    in_panels,
    round_axis,
    run_labels,
)
from eunoe.report.theme import MOST_POINTS, PANEL, Row, described, run_color, thinned
from eunoe.store.run_records import RunRecords, numbers


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Distance from the start and from each other, cosine of updates; mean over seeds, per probed round."""
    found = []
    for label, seeds in by_label(runs).items():
        probed: dict[int, list[tuple[float, float, float]]] = {}
        for run in seeds:
            for probe in run.probe("drift"):
                mean = forgetting.known_mean(numbers(probe["from_start"]))
                pair = numbers([probe["apart"], probe["cosine"]]).tolist()
                probed.setdefault(int(probe["round"]), []).append((mean, pair[0], pair[1]))
        for number in thinned(sorted(probed), MOST_POINTS):
            start, apart, cosine = forgetting.known_mean(probed[number], axis=0).tolist()
            found.append({"run": label, "round": number, "start": start, "apart": apart, "cosine": cosine})
    return found


def draw(rows: Sequence[Row]) -> Any:
    """Distance of local models from the start and from each other, and cosine between updates."""
    labels, panels = run_labels(rows), []
    for field, title in (
        ("start", "distance from the start"),
        ("apart", "distance from each other"),
        ("cosine", "cosine between updates"),
    ):
        base = alt.Chart().transform_filter(f"isValid(datum.{field})")
        base = base.encode(
            round_axis(),
            alt.Y(f"{field}:Q", title=None, scale=alt.Scale(zero=True)),
            run_color(labels),
        )
        points = hover_points(
            base, ["run:N", "round:Q", alt.Tooltip(f"{field}:Q", title=title, format=".3f")]
        )
        panels.append(alt.layer(base.mark_line(), points).properties(width=PANEL, height=PANEL, title=title))
    words = []
    for label in labels:
        last = [row for row in rows if row["run"] == label][-1]
        words.append(
            f"{label}: {last['start']:.2f} from the start, {last['apart']:.2f} apart, "
            f"cosine {last['cosine']:.2f}"
        )
    text = f"Drift of local models over rounds; in the last probed round {'; '.join(words)}."
    return described(in_panels(panels, rows, columns=3), text)


FIGURE = Kind(
    "drift",
    SETTING,
    3,
    always("How far local training takes the models, and whether they agree on the way"),
    "Mean distance from the start, root mean square distance between two clients, mean cosine between "
    "two clients' updates (1: same direction, 0: unrelated).",
    rows,
    draw,
)

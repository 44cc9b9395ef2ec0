"""Distances of local models from the start model and from each other, and cosine of their updates."""

from collections.abc import Sequence

import altair as alt

from eunoe.metrics import forgetting
from eunoe.report.figures import charts
from eunoe.report.figures.charts import Display, Figure, Kind
from eunoe.report.figures.series import Row, probe_means
from eunoe.report.theme import PANEL
from eunoe.store.run_records import Record, RunRecords, numbers


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """Return distances and cosine, mean over seeds, per probed round."""
    return [
        {"run": label, "round": number, "start": start, "apart": apart, "cosine": cosine}
        for label, number, (start, apart, cosine) in probe_means(runs, "drift", _measure)
    ]


def _measure(probe: Record) -> list[float]:
    mean = forgetting.known_mean(numbers(probe["from_start"]))
    return [mean, *numbers([probe["apart"], probe["cosine"]]).tolist()]


def _last(rows: Sequence[Row]) -> str:
    last = rows[-1]
    return f"{last['start']:.2f} from the start, {last['apart']:.2f} apart, cosine {last['cosine']:.2f}"


def draw(rows: Sequence[Row], display: Display) -> Figure:
    """Draw a panel per number."""
    panels = []
    for field, title in (
        ("start", "distance from the start model"),
        ("apart", "distance from each other"),
        ("cosine", "cosine between updates"),
    ):
        base = alt.Chart().transform_filter(f"isValid(datum.{field})")
        height = alt.Y(f"{field}:Q", title=None, scale=alt.Scale(zero=True))
        base = base.encode(charts.round_axis(), height, display.run_color(rows))
        tips = ["run:N", "round:Q", charts.tip(field, title, ".3f")]
        panel = charts.line(base, tips)
        panels.append(panel.properties(width=PANEL, height=PANEL, title=title))
    text = f"Line charts of drift; in the last probed round {charts.describe_runs(rows, _last)}."
    return Figure(
        "Drift of local models, and agreement of their updates",
        "Mean distance from the start model, root mean square distance between two clients, mean cosine "
        "between two clients' updates (1: same direction, 0: unrelated).",
        charts.side_by_side(panels, rows, columns=3).properties(description=text),
    )


KIND = Kind("drift", rows, draw)

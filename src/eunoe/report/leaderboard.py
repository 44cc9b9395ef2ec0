"""The page of a leaderboard: its table, gains by setting, and accuracy against forgetting and cost."""

from pathlib import Path

import altair as alt

from eunoe.analysis.leaderboard import Leaderboard
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
    tips = [
        "entry:N",
        *(alt.Tooltip(f"{key}:Q", format=".1f") for key in ("gain", "forgetting", "bytes", "compute")),
    ]
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

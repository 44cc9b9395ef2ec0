"""Metrics of the user's own over the rounds, a curve each."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from eunoe.report.figures.common import OWN, Kind, always, band, band_and_line, run_labels
from eunoe.report.theme import Row, described
from eunoe.store.run_records import Array, RunRecords


def rows(metric: str, runs: Sequence[RunRecords]) -> list[Row]:
    """A metric per round."""

    def measured(run: RunRecords) -> tuple[Sequence[int], Array]:
        rounds, values = run.series(metric)
        return rounds.tolist(), values

    return band(runs, measured, signed=True)


def draw(metric: str, rows: Sequence[Row]) -> Any:
    """Mean over seeds per round, with a band of one standard deviation."""
    last = {row["run"]: row["mean"] for row in rows}
    ends = "; ".join(f"{label} ends at {last[label]:.4g}" for label in run_labels(rows))
    return described(
        band_and_line(rows, metric, zero=False, share=False), f"Line chart of {metric} over rounds. {ends}."
    )


def kinds(runs: Sequence[RunRecords]) -> list[Kind]:
    """A figure for each metric of the user's own in these runs."""
    return [
        Kind(
            f"metric-{metric.replace('.', '-')}",
            OWN,
            1,
            always(metric),
            "Mean over seeds; the band is one standard deviation.",
            partial(rows, metric),
            partial(draw, metric),
        )
        for metric in sorted({metric for run in runs for metric in run.own_metrics})
    ]

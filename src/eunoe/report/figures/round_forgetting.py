"""What each round forgets: F_t over the rounds."""

from collections.abc import Sequence
from typing import Any

from eunoe.metrics import forgetting
from eunoe.report.figures.common import ROUNDS, Kind, always, band, band_and_line, in_points, run_labels
from eunoe.report.theme import Row, described
from eunoe.store.run_records import Array, RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """F_t per round, each the mean of the last few rounds."""
    window = smoothing(runs)

    def running(run: RunRecords) -> tuple[Sequence[int], Array]:
        return run.rounds, forgetting.running_mean(run.forgetting("round"), window)

    return [{**row, "window": window} for row in band(runs, running)]


def smoothing(runs: Sequence[RunRecords]) -> int:
    """How many rounds are averaged so that a line of round forgetting can be read: one up to 119 rounds."""
    return max(1, max(len(run.rounds) for run in runs) // 60)


def draw(rows: Sequence[Row]) -> Any:
    """Round forgetting F_t over rounds."""
    means, window = [], rows[0]["window"]
    for label in run_labels(rows):
        own = [row for row in rows if row["run"] == label]
        mean = forgetting.mean_over_rounds([row["mean"] for row in own], [row["round"] for row in own])
        means.append(f"{label} loses {in_points([mean])} a round on average")
    title = "accuracy lost" if window == 1 else f"accuracy lost, mean of {window} rounds"
    chart = band_and_line(rows, title, zero=True)
    return described(chart, f"Line chart of round forgetting. {'; '.join(means)}.")


FIGURE = Kind(
    "round-forgetting",
    ROUNDS,
    1,
    always("What each round forgets: every peak is accuracy that was there a round before"),
    "Round forgetting F_t: the accuracy that classes lost since the round before, mean over classes; "
    "gains count as nothing.",
    rows,
    draw,
)

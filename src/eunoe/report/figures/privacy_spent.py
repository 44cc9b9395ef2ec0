"""What a run with differential privacy has spent by each round."""

from collections.abc import Sequence
from typing import Any

from eunoe.report.figures.common import SETTING, Kind, always, band, band_and_line
from eunoe.report.theme import Row, described
from eunoe.store.run_records import Array, RunRecords


def rows(runs: Sequence[RunRecords]) -> list[Row]:
    """The epsilon that is spent after each round."""

    def spent(run: RunRecords) -> tuple[Sequence[int], Array]:
        rounds, values = run.series("privacy.epsilon")
        return rounds.tolist(), values

    return band(runs, spent, signed=True)


def draw(rows: Sequence[Row]) -> Any:
    """Epsilon per round."""
    last = {row["run"]: row["mean"] for row in rows}
    ends = "; ".join(f"{label} ends at {value:.3g}" for label, value in last.items())
    chart = band_and_line(rows, "epsilon", zero=True, share=False)
    return described(chart, f"Line chart of the epsilon spent over rounds. {ends}.")


FIGURE = Kind(
    "privacy",
    SETTING,
    1,
    always("What privacy it has spent"),
    "Epsilon of a client's whole participation so far, at the run's delta. Numbers on clients' own samples "
    "lie outside.",
    rows,
    draw,
)

"""The Python interface to finished runs: compare, diagnose, plot, report."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eunoe.analysis import diagnosis
from eunoe.analysis.comparison import Comparison
from eunoe.simulation.build import assemble
from eunoe.simulation.run import Run
from eunoe.store.reader import find_folders, label_runs, read_run
from eunoe.store.run_records import RunRecords

# A run, its records, or a folder that is or holds runs.
RunLike = Run | RunRecords | Path | str


def compare(runs: RunLike | Sequence[RunLike]) -> Comparison:
    """Compare runs as a table with mean ± standard deviation over seeds."""
    return Comparison(_read(runs))


def diagnose(run: RunLike) -> diagnosis.Diagnosis:
    """Explain what a run forgot and in which step, and propose remedies."""
    return diagnosis.diagnose(_read(run)[0], assemble)


def figures(runs: RunLike | Sequence[RunLike]) -> dict[str, Any]:
    """Return the figures of runs by name, as Altair charts."""
    from eunoe.report.figures import all_figures

    return {figure.name: figure.chart for figure in all_figures(label_runs(_read(runs)))}


def write_report(runs: RunLike | Sequence[RunLike], path: Path | str) -> Path:
    """Write the report of runs as one self-contained HTML file and return its path."""
    from eunoe.report import html

    return html.write_report(label_runs(_read(runs)), path)


def _read(runs: RunLike | Sequence[RunLike]) -> list[RunRecords]:
    """Return the records of each run."""
    records: list[RunRecords] = []
    for run in [runs] if isinstance(runs, RunLike) else runs:
        if isinstance(run, Run | RunRecords):
            records.append(run.read if isinstance(run, Run) else run)
        else:
            records += [read_run(folder, begun=False) for folder in find_folders([Path(run)])]
    return records

"""The figure of an experiment, drawn from its runs as SVG: one of the report, or accuracy over settings."""

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import altair as alt

from eunoe.report.export import as_svg, without_hover
from eunoe.report.figures import KINDS
from eunoe.report.figures.charts import Display
from eunoe.report.theme import PICTURE_FONT, config
from eunoe.store.run_records import relabel
from eunoe.system.files import write_text
from eunoe_papers.experiment import MARKS, Experiment
from eunoe_papers.outcomes import read_outcome
from eunoe_papers.results import Results
from eunoe_papers.store import FoundRun

# Characters per line below a title: about the width of a chart.
WIDE = 70


def draw(results: Results, runs: Sequence[FoundRun], path: Path) -> Path | None:
    """Draw the figure of existing runs; None if they recorded nothing to draw."""
    experiment = results.experiment
    chart = (
        _draw_settings(experiment, runs) if experiment.draws == "settings" else _draw_report(experiment, runs)
    )
    if chart is None:
        return None
    marks = [MARKS[results.scale]] * (results.scale != "full")
    marks += sorted({f"STAND-IN DATA: {run.planned.stand_in}" for run in runs if run.planned.stand_in})
    marks += [f"ONLY {short}" for short in results.shortened]
    title = alt.TitleParams(
        f"{experiment.name} ({experiment.source.paper}, {experiment.source.where})",
        subtitle=[line for text in (experiment.source.sentence, *marks) for line in wrap(text, WIDE)],
    )
    return write_svg(chart.properties(title=title), path)


def write_svg(chart: Any, path: Path) -> Path:
    """Write a chart in the style of the report."""
    path.parent.mkdir(parents=True, exist_ok=True)
    spec = without_hover(chart.to_dict(validate=False))
    del spec["config"]  # Altair's default sizes would take precedence over ours.
    look = {**config("#222222", font=PICTURE_FONT), "background": "white", "padding": 8}
    # Half the bytes: without the description of every mark, and rounded to 0.01 pixel.
    svg = re.sub(r' (aria-[a-z]+|role)="[^"]*"', "", as_svg(spec, look))
    write_text(path, re.sub(r"(\.\d\d)\d+", r"\1", svg))
    return path


def _draw_report(experiment: Experiment, runs: Sequence[FoundRun]) -> Any:
    """Draw the figure of the report that the experiment names, of the round that its first measure takes."""
    records = [relabel(run.run.records, _label(run)) for run in runs if run.run.records.metrics]
    kind = next(kind for kind in KINDS if kind.name == experiment.draws)
    rows = kind.rows(records)
    if not rows:
        return None
    if "probe" in rows[0]:
        measure, rounds = next(iter(experiment.measures.values())), runs[0].planned.values["rounds"]
        place = measure.at if measure.kind == "in_round" else measure.at * rounds
        nearest = min(rows, key=lambda row: abs(row["round"] - place))
        rows = [{**row, "probe": 0} for row in rows if row["round"] == nearest["round"]]
    return kind.draw(rows, Display.of(records)).chart


def _label(run: FoundRun) -> str:
    stand_in = run.planned.stand_in
    return f"{run.planned.line} ({stand_in})" if stand_in else run.planned.line


def _draw_settings(experiment: Experiment, runs: Sequence[FoundRun]) -> Any:
    """Draw accuracy over each setting that was varied, the first part of a label."""
    measure, rows = next(iter(experiment.measures.values())), []
    for run in runs:
        name, value = run.planned.arm.parts[0]
        method, accuracy = run.planned.arm.get("method"), measure.read(read_outcome(run))
        rows.append({"setting": name, "value": value, "run": method, "accuracy": accuracy})
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        alt.X("value:Q", scale=alt.Scale(type="log"), title=None),
        alt.Y("mean(accuracy):Q", title="test accuracy", scale=alt.Scale(zero=False)),
        alt.Color("run:N", title=None),
    )
    panels = [
        base.transform_filter(alt.datum.setting == name).mark_line(point=True).properties(title=name)
        for name in dict.fromkeys(row["setting"] for row in rows)
    ]
    return alt.hconcat(*panels) if rows else None

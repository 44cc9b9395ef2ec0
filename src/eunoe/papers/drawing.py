"""The figure of a recipe, drawn from its runs as an SVG: one of the report, or accuracy over settings."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from textwrap import wrap
from typing import Any

import altair as alt
import numpy as np

from eunoe.papers.base import Run
from eunoe.papers.reproduce import Choice, read
from eunoe.papers.results import Results, stand_in
from eunoe.records.reader import RunRecords, read_run
from eunoe.report.export import as_svg, printed
from eunoe.report.figures import KINDS
from eunoe.report.theme import PICTURE_FONT, config
from eunoe.runs.run import Run as FinishedRun

# Letters in a line below a title: about as wide as a chart.
WIDE = 70


def draw(choice: Choice, results: Results) -> Path | None:
    """Draw the figure of all runs that there are, beside them; None where they recorded nothing to draw."""
    recipe, runs = choice.recipe, choice.begun()
    chart = _over_settings(choice, runs) if recipe.draws == "settings" else _of_report(choice, runs)
    if chart is None:
        return None
    marks = ["SMALL SCALE, not the paper's setting"] if choice.scale == "small" else []
    marks += sorted({f"STAND-IN DATA: {stand_in(run)}" for run in runs if run.stand_in_for})
    marks += [f"STOPPED EARLY {stopped}" for stopped in results.stopped]
    title = alt.TitleParams(
        f"{recipe.name} ({recipe.exhibit.paper}, {recipe.exhibit.where})",
        subtitle=[line for text in (recipe.exhibit.sentence, *marks) for line in wrap(text, WIDE)],
    )
    path = choice.out / recipe.name / choice.scale / f"{recipe.name}.svg"
    path.parent.mkdir(parents=True, exist_ok=True)
    spec = printed(chart.properties(title=title).to_dict(validate=False))
    del spec["config"]  # Altair's own sizes, which would come before ours.
    look = {**config("#222222", font=PICTURE_FONT), "background": "white", "padding": 8}
    path.write_text(as_svg(spec, look), "utf-8")
    return path


def _of_report(choice: Choice, runs: Sequence[Run]) -> Any:
    """The figure of the report that the recipe names; heat-maps show the round that the paper shows."""
    records = [record for run in runs if (record := _records(choice, run)) is not None]
    kind = next(kind for kind in KINDS if kind.name == choice.recipe.draws)
    rows = kind.rows(records)
    if not rows:
        return None
    if "probe" not in rows[0]:
        return kind.draw(rows)
    place = choice.recipe.draws_at * runs[0].config["rounds"]
    nearest = min(rows, key=lambda row: abs(row["round"] - place))
    return kind.draw([{**row, "probe": 0} for row in rows if row["round"] == nearest["round"]])


def _records(choice: Choice, run: Run) -> RunRecords | None:
    folder = choice.folder(run)
    if not (folder / "metrics.jsonl").exists():
        return None
    marked = f"{run.label} ({mark})" if (mark := stand_in(run)) else run.label
    found = replace(read_run(folder), label=marked)
    if choice.recipe.draws == "partition" and found.label_counts is None:
        federation = FinishedRun(folder).simulation.federation
        counts = federation.all_counts().astype(np.float64)
        found = replace(found, label_counts=counts, class_names=federation.data.class_names)
    return found


def _over_settings(choice: Choice, runs: Sequence[Run]) -> Any:
    """Accuracy over each setting that was varied; labels are "setting=value method"."""
    measure, rows = next(iter(choice.recipe.measures.values())), []
    for run in runs:
        if (outcome := read(choice, run)) is not None:
            setting, _, method = run.label.partition(" ")
            name, _, value = setting.partition("=")
            rows.append(
                {"setting": name, "value": float(value), "run": method, "accuracy": measure.read(outcome)}
            )
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

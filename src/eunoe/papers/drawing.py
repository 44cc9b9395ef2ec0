"""The figure of an exhibit, drawn from its runs as SVG: one of the report, or accuracy over settings."""

import re
from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap
from typing import Any

import altair as alt

from eunoe.papers.exhibit import MARKS, Exhibit
from eunoe.papers.found import FoundRun
from eunoe.papers.outcomes import outcome_of
from eunoe.papers.results import Results
from eunoe.report.export import as_svg, without_hover
from eunoe.report.figures import KINDS
from eunoe.report.figures.charts import Display
from eunoe.report.theme import PICTURE_FONT, config
from eunoe.store.run_records import relabel

# Characters per line below a title: about the width of a chart.
WIDE = 70


def draw(results: Results, found: Sequence[FoundRun], path: Path) -> Path | None:
    """Draw the figure of the existing runs; None if they recorded nothing to draw."""
    exhibit = results.exhibit
    chart = _over_settings(exhibit, found) if exhibit.draws == "settings" else _of_report(exhibit, found)
    if chart is None:
        return None
    marks = [MARKS[results.scale]] * (results.scale != "full")
    marks += sorted({f"STAND-IN DATA: {one.planned.stand_in}" for one in found if one.planned.stand_in})
    marks += [f"ONLY {short}" for short in results.shortened]
    title = alt.TitleParams(
        f"{exhibit.name} ({exhibit.source.paper}, {exhibit.source.where})",
        subtitle=[line for text in (exhibit.source.sentence, *marks) for line in wrap(text, WIDE)],
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    spec = without_hover(chart.properties(title=title).to_dict(validate=False))
    del spec["config"]  # Altair's default sizes would take precedence over ours.
    look = {**config("#222222", font=PICTURE_FONT), "background": "white", "padding": 8}
    path.write_text(_compact(as_svg(spec, look)), "utf-8")
    return path


def _compact(svg: str) -> str:
    """Shrink an SVG to half its bytes: drop the description of every mark and round to 0.01 pixel."""
    return re.sub(r"(\.\d\d)\d+", r"\1", re.sub(r' (aria-[a-z]+|role)="[^"]*"', "", svg))


def _of_report(exhibit: Exhibit, found: Sequence[FoundRun]) -> Any:
    """The figure of the report that the exhibit names; heat-maps show the round that the paper shows."""
    records = [relabel(one.run.records, _label(one)) for one in found if one.run.records.metrics]
    kind = next(kind for kind in KINDS if kind.name == exhibit.draws)
    rows = kind.rows(records)
    if not rows:
        return None
    if "probe" in rows[0]:
        place = exhibit.draws_at * found[0].planned.values["rounds"]
        nearest = min(rows, key=lambda row: abs(row["round"] - place))
        rows = [{**row, "probe": 0} for row in rows if row["round"] == nearest["round"]]
    return kind.draw(rows, Display.of(records)).chart


def _label(one: FoundRun) -> str:
    stand_in = one.planned.stand_in
    return f"{one.planned.line} ({stand_in})" if stand_in else one.planned.line


def _over_settings(exhibit: Exhibit, found: Sequence[FoundRun]) -> Any:
    """Accuracy over each setting that was varied, the first part of a key."""
    measure, rows = next(iter(exhibit.measures.values())), []
    for one in found:
        name, value = one.planned.key.parts[0]
        rows.append(
            {
                "setting": name,
                "value": value,
                "run": one.planned.key.get("method"),
                "accuracy": measure.read(outcome_of(one)),
            }
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

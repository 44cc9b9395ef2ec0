"""The report: one self-contained HTML file with its figures, their data and all scripts."""

import json
from collections.abc import Sequence
from functools import cache
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from eunoe.analysis.tables import Table
from eunoe.config.settings import flatten
from eunoe.report import theme
from eunoe.report.figures import SUMMARY, all_figures
from eunoe.report.figures.charts import Figure
from eunoe.report.figures.series import group_by_label
from eunoe.report.summary import Groups, clients_table, describe_setting, summary_html
from eunoe.store.run_records import RunRecords
from eunoe.system.files import check_replaceable, make_folder, write_text
from eunoe.text import fill_template

# Nothing may be fetched; Vega compiles its expressions, which needs unsafe-eval.
POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' 'unsafe-eval'; style-src 'unsafe-inline'; "
    "img-src data: blob:; base-uri 'none'; form-action 'none'"
)
LIVE = "; connect-src 'self'"


@cache
def _file(name: str) -> str:
    return resources.files("eunoe.report").joinpath(name).read_text(encoding="utf-8")


def _figure(figure: Figure) -> tuple[str, dict[str, Any]]:
    """Return a figure as HTML, and the data that the report's script draws it from."""
    spec = figure.chart.to_dict(validate=False)
    spec.pop("config", None)
    # Those of other versions of Vega-Lite are read too.
    spec.pop("$schema", None)
    rounds, name, slider = list(figure.rounds), figure.name, ""
    if rounds:
        param = next(param for param in spec["params"] if param["name"] == "probe")
        del param["bind"]
        probed = {"last": len(rounds) - 1, "value": param["value"], "now": f"round {rounds[param['value']]}"}
        slider = fill_template("eunoe.report", "slider.html", {"name": name, **probed})
    texts = {key: escape(getattr(figure, key)) for key in ("title", "caption", "text")}
    size = "wide" if figure.wide else "single"
    parts = {"name": name, "size": size, "slider": slider, **texts}
    html = fill_template("eunoe.report", "figure.html", parts)
    return html, {"name": name, "spec": spec, "rounds": rounds}


def _settings(groups: Groups) -> str:
    """Return tables of configurations and environments: what differs by run, then what all have."""
    parts = []
    for title, pick, state in (("Configuration", "config", " open"), ("Environment", "environment", "")):
        columns = [
            {
                name: value if isinstance(value, str) else json.dumps(value, default=str)
                for name, value in flatten(getattr(seeds[0], pick)).items()
            }
            for seeds in groups.values()
        ]
        names = dict.fromkeys(name for column in columns for name in column)
        rows = [[name, *(column.get(name, "") for column in columns)] for name in names]
        different = [row for row in rows if len(set(row[1:])) > 1]
        same = [row[:2] for row in rows if len(set(row[1:])) == 1 and row[1]]
        tables = []
        if different:
            tables.append(Table(["setting", *groups], different).html(marked=range(len(different))))
        if same:
            tables.append(Table(["setting", "all runs" if len(groups) > 1 else "value"], same).html())
        if tables:
            parts.append(
                f'<details class="settings"{state}><summary><strong>{title}</strong></summary>'
                f'<div class="scroll">{"".join(tables)}</div></details>'
            )
    return f'<section id="settings"><h2>Settings</h2>{"".join(parts)}</section>' if parts else ""


def report_html(runs: Sequence[RunRecords], live: str = "", further: Sequence[Figure] = ()) -> str:
    """Return the report of one run or of several compared, with further figures at its end.

    With `live`, the version of the records, it polls its server for a newer one and then reloads.
    """
    groups = group_by_label(runs)
    figures, further_tables = [*all_figures(runs), *further], clients_table(groups) + _settings(groups)
    lead, names = describe_setting(groups), ", ".join(groups)
    return page_html("What was forgotten", names, lead, summary_html(groups), figures, further_tables, live)


def page_html(
    heading: str,
    names: str,
    lead: str,
    summary: str,
    figures: Sequence[Figure],
    settings: str = "",
    live: str = "",
) -> str:
    """Return a page: a summary in HTML with its figures, further figures by section, and further tables."""
    sections: dict[str, list[str]] = {SUMMARY: []}
    drawn = []
    for figure in figures:
        html, drawing = _figure(figure)
        sections.setdefault(figure.section, []).append(html)
        drawn.append(drawing)
    links, body = [], []
    above = "".join(sections.pop(SUMMARY))
    for title, drawings in sections.items():
        anchor = title.lower().replace(" ", "-")
        links.append(f'<a href="#{anchor}">{escape(title)}</a>')
        opening = f'<section id="{anchor}"><h2>{escape(title)}</h2>'
        body.append(f'{opening}<div class="figures">{"".join(drawings)}</div></section>')
    if settings:
        links.append('<a href="#settings">Settings</a>')
    config = {"light": theme.config("currentColor"), "dark": theme.config("currentColor", dark=True)}
    data = json.dumps({"figures": drawn, "config": config, "live": live}, separators=(",", ":"))
    values = {
        "policy": POLICY + LIVE * bool(live),
        "heading": escape(heading),
        "names": escape(names),
        "lead": escape(lead),
        "style": _file("report.css"),
        "links": "".join(links),
        "summary": f'<section id="summary">{summary}<div class="figures">{above}</div></section>',
        "body": "".join(body),
        "settings": settings,
        # Escaped, so that it cannot close its script element.
        "data": data.replace("<", "\\u003c"),
        "live": '<section id="live"></section>' if live else "",
        "bundle": _file("vega.js"),
        "script": _file("report.js"),
    }
    return fill_template("eunoe.report", "page.html", values)


def write_report(runs: Sequence[RunRecords], path: str | Path, further: Sequence[Figure] = ()) -> Path:
    """Write the report, with further figures at its end, and return its path."""
    path = Path(path)
    check_replaceable(path)
    return write_page(report_html(runs, further=further), path)


def write_table_page(
    path: Path, heading: str, names: str, lead: str, table: Table, figures: Sequence[Figure]
) -> Path:
    """Write a page with a table and figures and return its path."""
    summary = f'<h2>{escape(heading)}</h2><div class="scroll">{table.html()}</div>'
    summary += f"<p>{escape(table.note)}.</p>"
    return write_page(page_html(heading, names, lead, summary, figures), path)


def write_page(text: str, path: Path) -> Path:
    """Write a page and return its path."""
    make_folder(path.parent)
    write_text(path, text)
    return path

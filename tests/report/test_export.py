"""Figures as files: the formats, the columns' widths, and nothing that only a screen needs."""

import json
import re

import pytest

from eunoe.report.export import ONE_COLUMN, TWO_COLUMNS, draw, paper_spec, write_figures
from eunoe.report.figures import KINDS, all_figures
from tests.report.made_up import made_up_run

RUNS = [made_up_run("fedavg", 0), made_up_run("wsm", 1)]
# Clients are compared on the same seeds only.
SAME_SEED = all_figures([made_up_run("fedavg", 0), made_up_run("wsm", 0)], ["clients"])
FIGURES = {figure.name: figure.chart for figure in [*all_figures(RUNS), *SAME_SEED]}


@pytest.mark.parametrize("name", list(FIGURES))
def test_a_figure_fits_its_columns(name):
    picture = draw(FIGURES[name], "svg").decode()
    width = float(re.search(r'<svg [^>]*?width="([\d.]+)"', picture)[1])
    column = TWO_COLUMNS if {"concat", "facet"} & set(paper_spec(FIGURES[name])) else ONE_COLUMN
    assert 0.6 * column < width < 1.12 * column


def test_a_printed_figure_has_no_slider_and_no_hover_points():
    for chart in FIGURES.values():
        text = json.dumps(paper_spec(chart))
        assert '"bind"' not in text
        assert '"opacity": 0,' not in text


@pytest.mark.parametrize(("format", "start"), [("pdf", b"%PDF"), ("png", b"\x89PNG"), ("svg", b"<svg")])
def test_formats(format, start):
    assert draw(FIGURES["accuracy"], format).startswith(start)


def test_every_figure_is_written(tmp_path):
    written = write_figures(RUNS, tmp_path / "new", "svg")
    assert [path.stem for path in written] == [
        kind.name for kind in KINDS if kind.name not in ("clients", "phases", "loss")
    ]
    assert all(path.stat().st_size > 1000 for path in written)

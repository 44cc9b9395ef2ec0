"""Figures as files: the formats, the columns' widths, and nothing that only a screen needs."""

import base64
import json
import re
import sys
from pathlib import Path

import pytest
from tools import vega_bundle

from eunoe.errors import InputError
from eunoe.report.export import ONE_COLUMN, TWO_COLUMNS, draw, paper_spec, write_figures
from eunoe.report.figures import KINDS, all_figures
from eunoe.report.html import write_report
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from tests.helpers import blobs
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


def test_long_names_are_written_in_full_within_one_column():
    long = "fedavg with momentum and label smoothing"
    runs = [made_up_run(long, 0), made_up_run("wsm", 1)]
    for figure in all_figures(runs, ["accuracy", "distribution"]):
        picture = draw(figure.chart, "svg").decode()
        assert f">{long}<" in picture
        assert float(re.search(r'<svg [^>]*?width="([\d.]+)"', picture)[1]) < 1.12 * ONE_COLUMN


def test_without_vl_convert_the_advice_is_one_line_and_the_report_is_whole(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(InputError, match=r"need vl-convert-python: pip install '.*\[figures\]'"):
        write_figures(RUNS, tmp_path / "new", "svg")
    assert write_report(RUNS, tmp_path / "report.html").stat().st_size > 900_000


def test_the_packaged_vega_is_that_of_the_pinned_versions():
    assert vega_bundle.PATH.read_text(encoding="utf-8") == vega_bundle.bundle()


BAD = "<script>alert(1)</script>\"'&"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return run(
        federation=blobs(),
        out=tmp_path_factory.mktemp("runs") / "<b>run</b>",
        name=BAD,
        rounds=3,
        participation=2,
        probes=[],
        engine="serial",
    )


def test_the_table_and_both_curves_are_shown(made: Run) -> None:
    html = made._repr_html_()
    assert html is not None
    assert f">{made.accuracy:.3f}</td>" in html
    assert f">{made.forgetting:.4f}</td>" in html
    assert "finished after round 3" in html
    pictures = [base64.b64decode(data).decode() for data in re.findall(r"svg\+xml;base64,([^\"]+)\"", html)]
    assert len(pictures) == 2
    assert all(picture.startswith("<svg") for picture in pictures)
    assert all(title in html for title in ("Accuracy of the global model", "Round forgetting"))
    assert 'alt="Accuracy of the global model. ' in html


def test_nothing_is_loaded_and_nothing_runs(made: Run) -> None:
    html = made._repr_html_()
    assert html is not None
    assert "<script" not in html
    assert "<b>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&quot;&#x27;&amp;" in html
    assert "http" not in re.sub(r"base64,[^\"]+", "", html)


def test_a_run_without_evaluation_has_its_table_alone(tmp_path: Path) -> None:
    off = {"every": 0, "last": 0}
    made = run(federation=blobs(), out=tmp_path / "run", rounds=1, engine="serial", probes=[], evaluation=off)
    html = made._repr_html_()
    assert html is not None
    assert "<table>" in html
    assert "<img" not in html


def test_before_its_first_round_a_run_is_text(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("rounds = 3\n")
    assert Run(tmp_path)._repr_html_() is None

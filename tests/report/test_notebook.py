"""A run in a notebook: its numbers and curves, whatever its name is."""

import base64
import re
from pathlib import Path

import pytest

from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from tests.helpers import blobs

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

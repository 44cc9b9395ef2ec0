"""eunoe report and eunoe figures on a run folder."""

import json
import os

import pytest
from typer.testing import CliRunner

from eunoe.analysis.summary import summarize
from eunoe.cli.app import app
from eunoe.store.reader import read_runs
from tests.cli.command import eunoe


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "runs" / "a"
    folder.mkdir(parents=True)
    (folder / "config.toml").write_text('name = "my run"\n')
    lines = [
        {"schema": 1, "round": number, "test": {"accuracy": 0.5, "loss": 1.0, "per_class": [0.5, 0.5]}}
        | {"forgetting": {"round": 0.1, "fedntd": 0.1}}
        for number in (1, 2)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return folder


def test_report_writes_the_report_and_prints_its_path(run, tmp_path):
    done = CliRunner().invoke(app, ["report", str(run.parent), "--out", str(tmp_path / "report.html")])
    assert done.exit_code == 0
    assert done.stdout.strip() == f"report: {(tmp_path / 'report.html').as_uri()}"
    assert "my run" in (tmp_path / "report.html").read_text()


def test_a_flower_app_is_found_by_its_run_wherever_one_looks(run, tmp_path):
    (run.parent / "config.toml").write_text('name = "my run"\nrounds = 2\n')
    assert CliRunner().invoke(app, ["report", str(run.parent), "--out", str(tmp_path / "p")]).exit_code == 0
    shown = CliRunner().invoke(app, ["compare", str(run.parent), "--format", "csv"]).stdout.splitlines()
    # What nobody recorded, such as the bytes of a federation that was only watched, is a dash.
    assert shown[1:] == ["my run,1,0.500,0.1000,0.500,0.100,,,,,"]


def test_figures_writes_one_file_each(run, tmp_path):
    done = CliRunner().invoke(app, ["figures", str(run), "--out", str(tmp_path / "f"), "--format", "svg"])
    assert done.exit_code == 0
    assert [line.rsplit("/", 1)[1] for line in done.stdout.split()] == [
        "accuracy.svg",
        "round-forgetting.svg",
        "distribution.svg",
        "per-class.svg",
    ]


def test_what_cannot_be_written(run, tmp_path, monkeypatch):
    monkeypatch.setattr("eunoe.report.html.report_html", lambda runs: pytest.fail("the report was built"))
    (tmp_path / "file").touch()
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "taken" / "accuracy.svg").mkdir(parents=True)
    for arguments, says in (
        (["report", run, "--out", tmp_path], "it is a folder"),
        (["report", run, "--out", tmp_path / "fifo"], "it is a FIFO or device"),
        (["figures", run, "--out", tmp_path / "file"], "cannot write"),
        (["figures", run, "--out", tmp_path / "taken", "--format", "svg"], "accuracy.svg: it is a folder"),
    ):
        outcome = eunoe(*arguments)
        assert outcome.code in (1, 2)
        assert says in outcome.error
        assert len(outcome.error.splitlines()) == 1


def test_a_port_that_there_is_not(run):
    outcome = eunoe("watch", run, "--port", 99999)
    assert outcome.code == 2
    assert "65535" in outcome.error


def test_no_sentence_has_a_negative_number(run):
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    for line in lines:
        line["forgetting"]["fedntd"] = -0.121
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    probe = {"schema": 1, "round": 2, "probe": "local_per_class", "clients": [0]}
    kept = {"start": [0.5, 0.5], "local": [[0.5, 0.5]], "merged": [0.5, 0.5]}
    (run / "probes.jsonl").write_text(json.dumps(probe | kept) + "\n")
    text = str(summarize(read_runs([run])[0]))
    assert "a class ends no lower than its best" in text
    assert "aggregation changes nothing" in text
    assert "-" not in text

"""`eunoe compare` and `eunoe export` as a user types them."""

import csv
import json
import re
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from eunoe.views import figures, write_report
from tests.cli.command import eunoe
from tests.helpers import Tied

VALUES = {
    "rounds": 3,
    "participation": 2,
    "partition": {"clients": 30},
    "model": {"name": "mlp", "hidden": [4]},
    "training": {"epochs": 1},
    "engine": "serial",
    "probes": [],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of one configuration, one run of another, and a config file that is no run."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in (0, 1):
        run({**VALUES, "seed": seed}, out=folder / "ce" / str(seed))
    run({**VALUES, "loss": "wsm"}, out=folder / "wsm")
    (folder / "other").mkdir()
    (folder / "other" / "config.toml").write_text("rounds = 3")
    return folder


def test_a_table_in_each_format(folder: Path) -> None:
    shown = eunoe("compare", folder)
    assert shown.code == 0
    assert "fedavg · ce" in shown.out
    assert "mean of the last 3 rounds" in " ".join(shown.out.split())
    rows = list(csv.reader(eunoe("compare", folder, "--format", "csv").out.splitlines()))
    assert [row[:2] for row in rows] == [["run", "seeds"], ["fedavg · ce", "2"], ["fedavg · wsm", "1"]]
    accuracy = [Run(folder / "ce" / str(seed)).accuracy for seed in (0, 1)]
    assert rows[0][2:4] == ["accuracy", "accuracy ±"]
    assert rows[1][2] == f"{sum(accuracy) / 2:.3f}"
    assert eunoe("compare", folder, "--format", "md").out.startswith("| run | seeds | accuracy |")
    latex = eunoe("compare", folder / "wsm", "--format", "latex").out
    assert r"fedavg $\cdot$ wsm & 1 &" in latex
    first, second = json.loads(eunoe("compare", folder, "--format", "json").out)
    assert (first["run"], first["seeds"], second["accuracy ±"]) == ("fedavg · ce", 2, None)
    assert first["accuracy"] == float(rows[1][2])


def test_the_terminal_has_accuracy_and_forgetting_and_the_rest_on_request(folder: Path) -> None:
    short = eunoe("compare", folder).out
    assert "accuracy" in short
    further = "balanced accuracy, FedNTD score, worst tenth, MB up, MB down, passes, seconds"
    assert f"more columns with --all: {further}" in short
    whole = eunoe("compare", folder, "--all").out
    assert "worst tenth" in whole
    assert "--all" not in whole
    picked = eunoe("compare", folder, "--columns", "seconds, MB up", "--format", "csv").out.splitlines()
    assert [name for name in picked[0].split(",") if "±" not in name] == ["run", "seeds", "seconds", "MB up"]
    assert (
        "no column 'acuracy': did you mean 'accuracy'?"
        in eunoe("compare", folder, "--columns", "acuracy").error
    )


def test_nothing_to_compare(folder: Path, tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none", folder / "other"):
        outcome = eunoe("compare", path)
        assert outcome.code == 2
        assert "contains no run" in outcome.error
    assert eunoe("compare", folder, "--format", "pdf").code == 2


def test_the_last_and_the_best_model_as_files(folder: Path, tmp_path: Path) -> None:
    assert eunoe("export", folder / "wsm", "--to", tmp_path / "last.safetensors").code == 0
    assert eunoe("export", folder / "wsm", "--best", "--to", tmp_path / "best.safetensors").code == 0
    done = Run(folder / "wsm")
    state = load_file(tmp_path / "last.safetensors")
    assert set(state) == set(done.model().state_dict())
    assert all(torch.equal(value, done.model().state_dict()[name]) for name, value in state.items())
    best = load_file(tmp_path / "best.safetensors")
    expected = done.model("best").state_dict()
    assert all(torch.equal(value, expected[name]) for name, value in best.items())


def test_weights_that_are_tied_are_exported_under_both_names(tmp_path: Path) -> None:
    done = run({**VALUES, "model": "tests.helpers:Tied"}, out=tmp_path / "run")
    assert eunoe("export", done.folder).code == 0
    state = load_file(done.folder / "last.safetensors")
    assert torch.equal(state["first.weight"], state["second.weight"])
    again = Tied((8, 8), 10)
    again.load_state_dict(state)
    test = done.simulation.federation
    x, y = test.preprocess(test.data.test.x), test.data.test.y
    right = again(x).argmax(1) == y
    assert right.double().mean().item() == done.records[-1]["test"]["accuracy"]


def test_what_cannot_be_exported(folder: Path, tmp_path: Path) -> None:
    for arguments, says in (
        ([tmp_path], "is not a run folder"),
        ([folder / "other"], "has no model yet"),
        ([folder / "wsm", "--to", tmp_path / "none" / "x"], "there is no folder"),
        ([folder / "wsm", "--to", tmp_path], "is a folder"),
        ([folder / "wsm", "--to", tmp_path / ("x" * 300)], "cannot write the model"),
    ):
        outcome = eunoe("export", *arguments)
        assert outcome.code == 2
        assert says in outcome.error
        assert len(outcome.error.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []


def test_differences_by_seed(folder: Path, tmp_path: Path) -> None:
    refused = eunoe("compare", folder, "--paired")
    assert refused.code == 2
    assert refused.error == (
        "error: fedavg · wsm has seeds 0 and fedavg · ce has 0, 1: paired differences need the same seeds\n"
    )
    run({**VALUES, "loss": "wsm", "seed": 1}, out=tmp_path / "wsm-1")
    shown = eunoe("compare", folder, tmp_path, "--paired", "--format", "md")
    assert shown.code == 0, shown.error
    headings, _, first, second = shown.out.splitlines()
    assert headings.startswith("| run | seeds | accuracy | forgetting |")
    assert headings.endswith("| better |")
    assert "±" in first
    assert re.search(r"[+-]0\.\d{3} \[[+-]\d\.\d{3}, [+-]\d\.\d{3}\]", second)
    assert "mean difference" in eunoe("compare", folder, tmp_path, "--paired").out


def test_clients_with_the_federation_and_alone(tmp_path: Path) -> None:
    small = {**VALUES, "partition": {"clients": 5}, "participation": 1.0, "split": {"test": 0.3}}
    for method in ("fedavg", "local"):
        run({**small, "method": method}, out=tmp_path / method)
    shown = eunoe("compare", tmp_path, "--by", "client")
    assert shown.code == 0
    assert "fedavg against local, in points:" in shown.out
    assert "worst tenth" in shown.out
    rows = list(csv.reader(eunoe("compare", tmp_path, "--by", "client", "--format", "csv").out.splitlines()))
    assert [row[0] for row in rows[1:]] == [f"client {k}" for k in range(5)] + [
        "mean of clients",
        "worst tenth",
    ]
    record = Run(tmp_path / "local").records[-1]["client_test"]["by_client"]
    assert [int(row[1]) for row in rows[1:6]] == record["samples"]
    refused = eunoe("compare", tmp_path, "--by", "client", "--all")
    assert (refused.code, refused.error.count("\n")) == (2, 1)
    exported = eunoe("export", tmp_path / "local", "--best", "--client", 3)
    assert "best model of client 3" in exported.out
    assert (tmp_path / "local" / "best-of-client-3.safetensors").exists()
    assert "name a client, 0 to 4" in eunoe("export", tmp_path / "local").error


def test_clients_without_test_data_are_not_compared(folder: Path) -> None:
    refused = eunoe("compare", folder / "wsm", "--by", "client")
    assert refused.code == 2
    assert "set split.test" in refused.error


def test_names_in_the_table_work_as_paths(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    assert eunoe("diagnose", "fedavg · wsm").out == eunoe("diagnose", "wsm").out != ""
    assert "fedavg · wsm, training.lr=0.5" in eunoe("diagnose", "fedavg · wsm, training.lr=0.5").error
    assert eunoe("compare", "fedavg · ce", "--format", "csv").out.count("fedavg · ce,2,") == 1
    refused = eunoe("diagnose", "fedavg · ce")
    assert (refused.code, refused.error) == (
        2,
        "error: 2 runs are named fedavg · ce: pass one of ce/0, ce/1\n",
    )


def test_metrics_of_the_config_are_columns(tmp_path: Path) -> None:
    metrics = ["auroc", {"name": "calibration_error"}]
    values = {**VALUES, "rounds": 2, "metrics": metrics, "evaluation": {"metric": "balanced_accuracy"}}
    done = run(values, out=tmp_path / "run")
    rows = list(csv.DictReader(eunoe("compare", tmp_path, "--format", "csv").out.splitlines()))
    ends = [record["auroc"]["test"]["value"] for record in done.records]
    assert rows[0]["auroc.test"] == f"{sum(ends) / 2:.4f}"
    assert rows[0]["balanced_accuracy"] == rows[0]["balanced accuracy"]
    assert "calibration_error.test" in rows[0]
    assert not [name for name in rows[0] if "support" in name or "value" in name]
    one = eunoe("compare", tmp_path, "--column", "auroc", "--format", "csv").out.splitlines()
    assert one == ["run,seeds,auroc.test", f"fedavg · ce,1,{rows[0]['auroc.test']}"]
    assert ", balanced_accuracy on the test set" in " ".join(eunoe("compare", tmp_path).out.split())
    assert "metric-auroc-test" in figures(tmp_path)


def test_metrics_by_client_are_in_the_table_and_in_the_report(tmp_path: Path) -> None:
    further = {"name": "by_client", "metrics": ["calibration_error"]}
    values = {**VALUES, "rounds": 1, "split": {"test": 0.3}, "metrics": [further]}
    done = run(values, out=tmp_path / "run")
    by_client = done.records[0]["client_test"]["by_client"]
    shown = eunoe(
        "compare", tmp_path, "--by", "client", "--metric", "calibration_error", "--format", "csv"
    ).out
    numbers = [f"{value:.3f}" if value is not None else "" for value in by_client["calibration_error"]]
    assert [row[2] for row in csv.reader(shown.splitlines()[1:-2])] == numbers
    assert "calibration_error of a client" in write_report(tmp_path, tmp_path / "report.html").read_text()
    refused = eunoe("compare", tmp_path, "--by", "client", "--metric", "auroc")
    assert 'metrics=[{name="by_client",metrics=["auroc"]}]' in refused.error

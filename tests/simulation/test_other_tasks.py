"""Labels and numbers through whole runs: methods, engines, resume, refusals, and what is read of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eunoe import diagnose
from eunoe.analysis.comparison import Comparison
from eunoe.config import registry
from eunoe.core.tasks import MULTILABEL, Regression, Task, supports
from eunoe.errors import InputError
from eunoe.report.html import report_html
from eunoe.search.remedies import TABLE, Applicability
from eunoe.simulation.export import export_model
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from eunoe.store.reader import read_run
from tests.other_tasks import federation
from tests.small_runs import FAST, REFERENCES, Stopped, bits, stop_after

TASKS: dict[str, Task] = {"multilabel": MULTILABEL, "regression": Regression()}
CONFIG: dict[str, Any] = {
    **FAST,
    "rounds": 3,
    "participation": 3,
    "training": {"epochs": 2, "lr": 0.05, "batch_size": 16},
    "model": {"name": "mlp", "hidden": [8]},
}


def trained(task: str, out: Path, **more: Any) -> Run:
    public = {"public": 0.2} if more.pop("needs_public", False) else {}
    clients = federation(task, **public)
    if more.get("method") in list(REFERENCES):
        clients = replace(clients, references={"old": clients.data})
    return run({**CONFIG, **more}, federation=clients, out=out)


@pytest.mark.parametrize("task", TASKS)
def test_engines_agree_and_a_run_goes_on(tmp_path: Path, task: str) -> None:
    probes = [{"metric": "client_matrix", "every": 1}]
    serial = trained(task, tmp_path / "serial", probes=probes, rounds=4)
    assert serial.records[-1]["test"]["loss"] < serial.records[0]["test"]["loss"]
    again = trained(task, tmp_path / "process", probes=probes, rounds=4, engine="process")
    assert bits(again.folder) == bits(serial.folder)
    assert (again.folder / "probes.jsonl").read_bytes() == (serial.folder / "probes.jsonl").read_bytes()
    with pytest.raises(Stopped):
        run(
            {**CONFIG, "probes": probes, "rounds": 4},
            federation=federation(task),
            out=tmp_path / "cut",
            on_round=stop_after(2),
        )
    resume(tmp_path / "cut", federation=federation(task))
    assert bits(tmp_path / "cut") == bits(serial.folder)


@pytest.mark.parametrize("task", TASKS)
def test_the_vectorized_engine_is_near(tmp_path: Path, task: str, caplog: pytest.LogCaptureFixture) -> None:
    weights = [
        trained(task, tmp_path / name, engine=name).weights().parameters for name in ("serial", "vectorized")
    ]
    assert (weights[0] - weights[1]).abs().max() < 1e-5
    assert "one after the other" not in caplog.text


SERVING = [
    (task, name)
    for task, known in TASKS.items()
    for name in registry.names("method")
    if name not in registry.PRESETS and supports(registry.find("method", name), known)  # type: ignore[arg-type]
]


def test_which_methods_serve_every_task() -> None:
    serving = {task: {name for one, name in SERVING if one == task} for task in TASKS}
    distilling = {"feddf", "fedgkd", "fedntd", "fedproj", "fedreg", "fedsol", "fedvls", "flashback"}
    everything = {name for name in registry.names("method") if name not in registry.PRESETS}
    assert serving["multilabel"] == serving["regression"] == everything - distilling - {"labelwise"}


@pytest.mark.parametrize(("task", "method"), SERVING)
def test_methods_train(tmp_path: Path, task: str, method: str) -> None:
    done = trained(task, tmp_path / "run", method=method, rounds=2, needs_public=True)
    place = "validation" if method == "local" else "test"
    losses = [record[place]["loss"] for record in done.records]
    assert losses[-1] < losses[0]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize(
    "more",
    [
        {"averaging": {"decay": 0.5}},
        {"aggregation": "median"},
        {"compress": {"name": "topk", "share": 0.1}},
        {"secure_aggregation": {}},
        {
            "privacy": {"noise": 0.5, "clip": 1.0, "delta": 1e-3},
            "method": {"name": "fedavg", "weighting": "uniform"},
        },
        {"server_optimizer": {"name": "adam", "lr": 0.01}},
        {"attack": {"name": "sign_flip", "share": 0.2}},
        {"stream": [{"name": "arrival", "joining": 0.3}]},
    ],
    ids=lambda more: next(iter(more)),
)
def test_other_options_go_with_every_task(tmp_path: Path, task: str, more: dict[str, Any]) -> None:
    assert trained(task, tmp_path / "run", **more).finished


@pytest.mark.parametrize(
    ("task", "more", "says"),
    [
        (
            "regression",
            {"loss": "wsm"},
            "loss 'wsm' supports classification, not regression: use one of huber, mse",
        ),
        ("multilabel", {"loss": "mse"}, "loss 'mse' supports regression, not multilabel: use bce"),
        ("regression", {"method": "fedntd"}, "method 'fedntd' supports classification"),
        ("multilabel", {"method": "flashback"}, "method 'flashback' supports classification"),
        ("regression", {"metrics": ["auroc"]}, "metric 'auroc' supports classification and multilabel"),
        ("multilabel", {"metrics": ["r2"]}, "metric 'r2' supports regression"),
        ("regression", {"probes": [{"metric": "local_per_class", "every": 1}]}, "'local_per_class' supports"),
        ("regression", {"probes": [{"metric": "client_matrix", "every": 1, "data": "test"}]}, "leave it out"),
        ("multilabel", {"replay": {"memory": 5}}, "replay requires classification"),
        ("regression", {"evaluation": {"personal": 5}}, "evaluation.personal requires classification"),
        ("regression", {"attack": {"name": "label_flip", "share": 0.5}}, "attack 'label_flip' requires"),
        ("multilabel", {"stream": [{"name": "classes"}]}, "stream 'classes' supports classification"),
        ("regression", {"method": {"name": "fedcurv", "labels": "sampled"}}, "method.labels = 'true'"),
        ("regression", {"model": {"name": "mlp", "classifier": "etf"}}, "'etf' requires classification"),
        ("multilabel", {"training": {"single_class": "skip"}}, "training.single_class requires"),
    ],
)
def test_what_is_for_other_tasks_is_refused_in_one_line(
    tmp_path: Path, task: str, more: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says) as raised:
        trained(task, tmp_path / "run", **more)
    assert "\n" not in str(raised.value)
    assert not (tmp_path / "run").exists()


def test_numbers_leave_in_the_units_of_the_data(tmp_path: Path) -> None:
    done = trained("regression", tmp_path / "run", rounds=6)
    data = done.simulation.federation.data
    assert isinstance(data.task, Regression)
    test, truth = data.test, data.task.to_units(data.test.y)
    predicted = done.predict(test.tensor)
    rmse = np.sqrt(((predicted - truth.numpy()) ** 2).mean(0)).mean()
    assert rmse == pytest.approx(done.records[-1]["test"]["rmse"], rel=1e-4)
    raw = done.model(raw=True)(test.tensor)
    assert torch.allclose(raw, torch.from_numpy(predicted), rtol=1e-5)
    export_model(done, tmp_path / "last.pt2", raw=True)
    program = torch.export.load(tmp_path / "last.pt2").module()
    assert torch.allclose(program(test.tensor[:7]), raw[:7], rtol=1e-5)
    _, beside = export_model(done, tmp_path / "last.safetensors")
    about = json.loads(beside.read_text())
    assert about["task"] == "regression"
    plain = done.model()(test.tensor).detach()
    scaled = plain * torch.tensor(about["target_std"]) + torch.tensor(about["target_mean"])
    assert torch.allclose(scaled, raw, rtol=1e-5)


def test_labels_are_predicted_as_rows(tmp_path: Path) -> None:
    done = trained("multilabel", tmp_path / "run")
    test = done.simulation.federation.data.test
    predicted = done.predict(test.tensor)
    assert (predicted == test.y.numpy()).all(1).mean() == done.records[-1]["test"]["subset_accuracy"]
    with pytest.raises(InputError, match="a prior is of classes"):
        done.predict(test.tensor, prior=[1, 1, 1])


@pytest.mark.parametrize(
    ("task", "title", "loss"), [("multilabel", "macro-F1", "bce"), ("regression", "R²", "mse")]
)
def test_what_is_read_and_drawn_has_the_words_of_the_task(
    tmp_path: Path, task: str, title: str, loss: str
) -> None:
    probes = [{"metric": metric, "every": 1} for metric in ("client_matrix", "drift")]
    done = trained(task, tmp_path / "run", rounds=4, probes=probes)
    assert done.config.title == f"fedavg · {loss}"
    assert f"{title} {done.score:.3f}" in repr(done)
    read = read_run(done.folder)
    found = Comparison([read])
    assert title in found.table().headings
    assert "accuracy" not in found.table().headings
    page = report_html([read])
    assert f"has {title} " in page
    assert "Which classes" not in page
    assert "accuracy" not in found.by_client().table().headings
    words = diagnose(read)
    assert any(f"{title} " in sentence for sentence in words.sentences)
    assert not [remedy for remedy in words.remedies if "loss.name=wsm" in remedy.settings]


@pytest.mark.parametrize("task", TASKS)
def test_a_cure_tries_nothing_that_is_for_classes(tmp_path: Path, task: str) -> None:
    done = trained(task, tmp_path / "run", needs_public=True)
    objects = done._objects
    values = done.config.model_dump(exclude_none=True)
    labels = {remedy.label for remedy in Applicability(values, done.config, objects).select(TABLE)}
    assert {"", "scaffold with server momentum", "server momentum", "fedprox"} <= labels
    assert not labels & {"wsm", "fedntd", "flashback", "feddf", "logit adjustment"}


def test_targets_stop_a_run_by_the_tasks_own_metric(tmp_path: Path) -> None:
    done = trained("regression", tmp_path / "run", rounds=30, stop={"target": 0.3})
    assert len(done.records) < 30
    assert done.status["reason"] == "validation R² reached 0.3"

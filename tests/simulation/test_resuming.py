"""Going on with a run: to the same bits, and not under what would change them."""

import json
import shutil
import signal
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from eunoe.engines.serial import Serial
from eunoe.errors import Damaged, InputError
from eunoe.simulation.resuming import describe_environment
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from eunoe.store.checkpoints import list_checkpoints
from eunoe.store.reader import group_key
from tests.helpers import Net, blobs
from tests.small_runs import FAST, NAMED, Stopped, bits, everything, net, stop_after


@pytest.mark.parametrize("checkpoint_seconds", [0, 1000])
@pytest.mark.parametrize("stopped", [1, 3])
def test_a_run_that_was_interrupted_goes_on_to_the_same_bits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, stopped: int, checkpoint_seconds: int
) -> None:
    values = {**NAMED, "method": "fedadam", "checkpoint_seconds": checkpoint_seconds}
    whole = run(values, out=tmp_path / "whole")
    with pytest.raises(KeyboardInterrupt):
        run(values, out=tmp_path / "parts", on_round=stop_after(stopped, KeyboardInterrupt))
    assert Run(tmp_path / "parts").status["state"] == "interrupted"
    assert not Run(tmp_path / "parts").finished
    done = resume(tmp_path / "parts")
    assert caplog.messages == []
    assert done.finished
    assert bits(done.folder) == bits(whole.folder)
    assert [record["round"] for record in done.records] == [1, 2, 3, 4]


@pytest.mark.parametrize(
    ("when", "number"),
    [("evaluation", signal.SIGINT), ("training", signal.SIGTERM), ("callback", signal.SIGINT)],
)
def test_an_interrupt_writes_a_checkpoint_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str, number: int
) -> None:
    values = {**NAMED, "checkpoint_seconds": 1000}
    whole = run(values, out=tmp_path / "whole")

    def signaled(name: str) -> None:
        method = getattr(Serial, name)

        def call(self: Serial, *arguments: Any) -> Any:
            if (tmp_path / "parts/metrics.jsonl").read_text().count("\n") == 2:
                monkeypatch.undo()
                signal.raise_signal(number)
            return method(self, *arguments)

        monkeypatch.setattr(Serial, name, call)

    def on_round(record: dict[str, Any]) -> None:
        if record["round"] == 1 and when != "callback":
            signaled({"evaluation": "evaluate", "training": "train"}[when])
        elif record["round"] == 3:
            signal.raise_signal(number)

    with pytest.raises(KeyboardInterrupt):
        run(values, out=tmp_path / "parts", on_round=on_round)
    # An interrupt in training drops the round; one after it waits until the round is recorded.
    saved = 2 if when == "training" else 3
    assert Run(tmp_path / "parts").status["state"] == "interrupted"
    assert Run(tmp_path / "parts").status["round"] == saved
    assert [path.stem for path in list_checkpoints(tmp_path / "parts")] == [f"{saved:08d}"]
    assert bits(resume(tmp_path / "parts").folder) == bits(whole.folder)


def test_a_run_goes_back_to_a_round_and_on_to_the_same_bits(tmp_path: Path) -> None:
    run(NAMED, out=tmp_path)
    before = bits(tmp_path)
    with pytest.raises(InputError, match="no checkpoint of round 1; it has: 3, 4"):
        resume(tmp_path, from_round=1)
    assert bits(tmp_path) == before
    seen = list[int]()
    assert resume(tmp_path, from_round=3, on_round=lambda record: seen.append(record["round"])).finished
    assert seen == [4]
    assert bits(tmp_path) == before


def test_a_changed_option_in_the_folder_is_refused(tmp_path: Path) -> None:
    run(**{**NAMED, "rounds": 2}, out=tmp_path)
    path = tmp_path / "config.toml"
    path.write_text(path.read_text().replace("lr = 0.2", "lr = 0.3"))
    before = everything(tmp_path)
    with pytest.raises(
        InputError, match=r"config\.toml changed since the run wrote it: training\.lr is 0\.2 in"
    ):
        resume(tmp_path, rounds=3)
    assert everything(tmp_path) == before


def test_rounds_and_engine_may_change_on_resume(tmp_path: Path) -> None:
    whole = run(**NAMED, out=tmp_path / "whole")
    run(**{**NAMED, "rounds": 2}, out=tmp_path / "parts")
    done = resume(tmp_path / "parts", {"rounds": 3}, checkpoint_seconds=5)
    assert len(done.records) == 3
    done = resume(tmp_path / "parts", rounds=4, engine={"name": "process", "workers": 2}, name="other")
    assert bits(done.folder) == bits(whole.folder)
    assert (done.config.rounds, done.config.title) == (4, "other")


def test_what_is_left_out_of_a_section_stays(tmp_path: Path) -> None:
    values = {**NAMED, "rounds": 1, "stop": {"target": 0.9}, "engine": "process"}
    first = run(values, training={"lr": 0.1}, engine={"workers": 1}, out=tmp_path)
    assert (first.config.training.lr, first.config.training.epochs) == (0.1, 1)
    assert (first.config.engine.name, first.config.engine.options) == ("process", {"workers": 1})
    config = resume(tmp_path, {"stop": {"hours": 1}}, engine={"workers": 2}).config
    assert (config.stop.target, config.stop.hours) == (0.9, 1.0)
    assert (config.engine.name, config.engine.options) == ("process", {"workers": 2})


def test_a_run_goes_on_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(60, 4)).astype(np.float32), np.arange(60) % 3
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    np.savez("own.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    torch.save(nn.Linear(4, 3).state_dict(), "start.pt")
    values = {
        **FAST,
        "data": "./own.npz",
        "partition": {"name": "iid", "clients": 3},
        "model": {"name": "torch.nn:Linear", "start_from": "start.pt", "in_features": 4, "out_features": 3},
    }
    values["model"]["partial"] = True
    first = run(values, rounds=1, out=tmp_path / "run")
    assert first.values["data"]["name"] == str(tmp_path / "own.npz")
    assert first.values["model"]["start_from"] == str(tmp_path / "start.pt")
    # Named as before it is the same run.
    assert resume(tmp_path / "run", values, rounds=2).finished
    monkeypatch.chdir("elsewhere")
    assert len(resume(tmp_path / "run", rounds=3).records) == 3
    other = run({**values, "data": "../own.npz"}, model={"start_from": "../start.pt"}, rounds=3)
    assert bits(other.folder) == bits(tmp_path / "run")
    assert group_key(other.config) == group_key(Run(tmp_path / "run").config)


def test_fewer_rounds_than_are_done_are_refused(tmp_path: Path) -> None:
    done = run(FAST, rounds=3, out=tmp_path / "run")
    before = (done.folder / "config.toml").read_bytes()
    with pytest.raises(InputError, match=r"rounds=2 is too small: .* has already run 3 rounds"):
        resume(done.folder, rounds=2)
    assert (done.folder / "config.toml").read_bytes() == before


def test_more_rounds_of_a_run_without_its_checkpoints_are_refused(tmp_path: Path) -> None:
    run(**{**NAMED, "rounds": 2}, out=tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    before = everything(tmp_path)
    with pytest.raises(InputError, match="no valid checkpoint"):
        resume(tmp_path, rounds=4)
    assert everything(tmp_path) == before


def test_a_run_that_reached_its_target_has_nothing_left_to_do(tmp_path: Path) -> None:
    done = run(**{**NAMED, "stop": {"target": 0.01}}, out=tmp_path)
    assert len(done.records) == 1
    before = bits(tmp_path)
    assert len(resume(tmp_path).records) == 1
    assert bits(tmp_path) == before
    assert len(resume(tmp_path, stop={"target": None}).records) == 4


def test_a_target_that_is_not_measured_is_refused_before_the_first_round(tmp_path: Path) -> None:
    values = {**NAMED, "split": {"validation": 0.0}, "stop": {"target": 0.5}}
    with pytest.raises(InputError, match=r"stop\.target requires validation data: set split\.validation"):
        run(**values, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    folder = run(**{**values, "stop": {}}, out=tmp_path / "run").folder
    with pytest.raises(InputError, match=r"stop\.target"):
        resume(folder, stop={"target": 0.5})


def test_a_cohort_may_not_change(tmp_path: Path) -> None:
    engine = {"name": "vectorized", "cohort": 2}
    run(**{**NAMED, "rounds": 1, "engine": engine}, out=tmp_path)
    with pytest.raises(InputError, match=r"engine\.cohort must stay 2"):
        resume(tmp_path, rounds=2, engine={**engine, "cohort": 1})
    assert len(resume(tmp_path, rounds=2).records) == 2


@pytest.mark.parametrize(
    ("change", "name"),
    [
        ({"seed": 1}, "seed is 0 in"),
        ({"participation": 3}, "participation is 2 in"),
        ({"training": {"lr": 0.3, "epochs": 1}}, "training.lr is 0.2 in"),
        ({"loss": "wsm"}, "loss.name is 'ce' in"),
        ({"method": {"name": "fedavg", "weighting": "uniform"}}, "method.weighting is 'samples' in"),
        ({"partition": {"name": "dirichlet", "clients": 30, "alpha": 9}}, "partition.alpha is 0.1 in"),
        ({"model": "mlp"}, r"model.hidden is \[4\] in"),
        ({"evaluation": {"last": 1}}, "evaluation.last is 10 in"),
        ({"split": {"validation": 0.3}}, "split.validation is 0.1 in"),
        ({"engine": "vectorized"}, "vectorized engine"),
    ],
)
def test_what_may_not_change_is_refused_by_name(tmp_path: Path, change: dict[str, Any], name: str) -> None:
    folder = finished_run()
    before = everything(folder)
    with pytest.raises(InputError, match=name) as caught:
        resume(folder, change)
    assert "\n" not in str(caught.value)
    assert everything(folder) == before


_FINISHED: list[Path] = []


def finished_run() -> Path:
    """A run that many tests look at and none changes."""
    if not _FINISHED:
        _FINISHED.append(run(NAMED, out=Path(tempfile.mkdtemp()) / "run").folder)
    return _FINISHED[0]


def test_options_that_are_left_out_are_no_change() -> None:
    values = {"method": "fedavg", "loss": "ce", "partition": {"clients": 30}}
    assert resume(finished_run(), values).finished


def test_another_machine_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(**NAMED, out=tmp_path)
    path = tmp_path / "environment.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps({**facts, "torch": "1.0", "cpu": "an abacus", "python": "2.7"}))
    resume(tmp_path)
    messages = caplog.messages
    assert len(messages) == 2
    assert "torch was '1.0'" in messages[0]
    assert "cpu was 'an abacus'" in messages[1]
    caplog.clear()
    path.write_text(json.dumps({key: value for key, value in facts.items() if key not in ("torch", "cpu")}))
    resume(tmp_path)
    assert not caplog.messages


def test_other_data_are_refused(tmp_path: Path) -> None:
    run(federation=blobs(), model=net(), **FAST, out=tmp_path)
    before = everything(tmp_path)
    with pytest.raises(InputError, match=r"the dataset changed since the run started"):
        resume(tmp_path, federation=blobs(seed=1), model=net())
    with pytest.raises(InputError, match=r"the partition changed since the run started"):
        resume(tmp_path, federation=blobs(alpha=9.0), model=net())
    with pytest.raises(InputError, match=r"model has 84 parameters, but the run in .* has 75"):
        resume(tmp_path, federation=blobs(), model=Net(hidden=9))
    assert everything(tmp_path) == before


def test_user_objects_must_be_passed_again(tmp_path: Path) -> None:
    whole = run(federation=blobs(), model=net(), **FAST, out=tmp_path / "whole")
    run(federation=blobs(), model=net(), **{**FAST, "rounds": 2}, out=tmp_path / "parts")
    with pytest.raises(InputError, match="pass it again as federation"):
        resume(tmp_path / "parts", rounds=4)
    with pytest.raises(InputError, match="pass it again as model"):
        resume(tmp_path / "parts", rounds=4, federation=blobs())
    done = resume(tmp_path / "parts", rounds=4, federation=blobs(), model=net())
    assert bits(done.folder) == bits(whole.folder)


def test_another_public_set_is_refused(tmp_path: Path) -> None:
    x, y = np.zeros((40, 8, 8), np.uint8), np.arange(40) % 10
    np.savez(tmp_path / "p.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    values = {**NAMED, "public": {"data": str(tmp_path / "p.npz")}}
    run(values, out=tmp_path / "run")
    np.savez(tmp_path / "p.npz", x_train=x + 1, y_train=y, x_test=x, y_test=y)
    with pytest.raises(InputError, match=r"the public data changed since the run started"):
        resume(tmp_path / "run")


def test_a_broken_newest_checkpoint_is_reported_and_the_run_ends_with_the_same_bits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = run(**NAMED, out=tmp_path / "whole")
    with pytest.raises(Stopped):
        run(**NAMED, out=tmp_path / "parts", on_round=stop_after(3))
    newest = list_checkpoints(tmp_path / "parts")[-1]
    newest.write_bytes(newest.read_bytes()[:100])
    done = resume(tmp_path / "parts")
    messages = caplog.messages
    assert len(messages) == 1
    assert "cannot be read" in messages[0]
    assert bits(done.folder) == bits(whole.folder)


def test_a_resumed_run_removes_nothing_behind_a_link(tmp_path: Path) -> None:
    values = {**NAMED, "method": "scaffold"}
    run(values, out=tmp_path / "run")
    precious = tmp_path / "home" / "letters" / "3-1.safetensors"
    precious.parent.mkdir(parents=True)
    precious.write_text("dear")
    (precious.parent / "deep").mkdir()
    (precious.parent / "deep" / "file").write_text("sir")
    (tmp_path / "run/states").rename(tmp_path / "states")
    (tmp_path / "run/states").symlink_to(tmp_path / "home")
    for folder in (tmp_path / "states").iterdir():
        folder.rename(tmp_path / "home" / folder.name)
    with pytest.raises(Damaged, match="states is a link, through which nothing is written"):
        resume(tmp_path / "run", rounds=values["rounds"] + 1)
    assert precious.read_text() == "dear"
    assert (precious.parent / "deep" / "file").read_text() == "sir"


def test_the_hashes_follow_data_and_partition() -> None:
    federation = blobs()
    first, again = describe_environment(federation), describe_environment(blobs())
    assert first == again
    assert first["torch"] == torch.__version__
    other = describe_environment(blobs(alpha=5.0))
    assert other["data_sha256"] == first["data_sha256"]
    assert other["partition_sha256"] != first["partition_sha256"]
    test = replace(federation.data.test, x=federation.data.test.x + 1)
    changed = describe_environment(replace(federation, data=replace(federation.data, test=test)))
    assert changed["data_sha256"] != first["data_sha256"]


def test_outside_a_repository_there_is_no_commit(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", "/")
    monkeypatch.setenv("GIT_DIR", str(tmp_path_factory.mktemp("none")))
    assert describe_environment(blobs())["git_commit"] is None

"""Running, resuming and reading runs, as a Python user does it."""

import json
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load
from torch import nn

import eunoe
from eunoe.config.schema import make_config
from eunoe.config.toml import to_toml
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.losses.wsm import WSM
from eunoe.methods.fedavg import FedAvg
from eunoe.records.groups import group_key
from eunoe.runs import run as runs
from eunoe.runs.folder import checkpoints
from eunoe.runs.run import Run, resume, run
from tests.helpers import Net, blobs

FAST: dict[str, Any] = {
    "engine": "serial",
    "rounds": 4,
    "participation": 2,
    "training": {"epochs": 1, "lr": 0.2},
    "probes": [],
    "checkpoint_seconds": 0,
}
NAMED: dict[str, Any] = {**FAST, "partition": {"clients": 30}, "model": {"name": "mlp", "hidden": [4]}}


def net() -> Net:
    torch.manual_seed(3)
    return Net()


def bits(folder: Path) -> dict[str, bytes]:
    """What must be the same for two runs to be the same."""
    weights = {path.name: path.read_bytes() for path in checkpoints(folder)[-1:]}
    return {"metrics": (folder / "metrics.jsonl").read_bytes(), "weights": vectors(weights)}


def vectors(files: dict[str, bytes]) -> bytes:
    (content,) = files.values()
    tensors = load(content)
    return b"".join(tensors[name].numpy().tobytes() for name in sorted(tensors))


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


# Ways to say what to run.


def test_keyword_arguments_values_and_a_config_are_the_same_run(tmp_path: Path) -> None:
    by_keywords = run(**NAMED, out=tmp_path / "a")
    by_values = run(NAMED, out=tmp_path / "b")
    by_config = run(make_config(NAMED), out=tmp_path / "c")
    mixed = run(make_config({**NAMED, "rounds": 9}), rounds=4, out=str(tmp_path / "d"))
    assert bits(by_keywords.folder) == bits(by_values.folder) == bits(by_config.folder) == bits(mixed.folder)
    assert eunoe.run is run


def test_the_config_of_a_run_repeats_it_bit_for_bit(tmp_path: Path) -> None:
    values = {**NAMED, "name": 'a/b "ü"', "method": "fedadam", "loss": {"name": "fedlc"}, "seed": 5}
    first = run(values, out=tmp_path / "a")
    again = run(Run(first.folder).values, out=tmp_path / "b")
    assert bits(first.folder) == bits(again.folder)
    assert (first.folder / "config.toml").read_bytes() == (again.folder / "config.toml").read_bytes()
    assert again.config.title == 'a/b "ü"'


def test_own_module_and_own_arrays(tmp_path: Path) -> None:
    own, federation = net(), blobs()
    before = [value.clone() for value in own.state_dict().values()]
    first = run(federation=federation, model=own, loss=WSM(), method=FedAvg(), **FAST, out=tmp_path / "a")
    # The module is as it was, so that the same call gives the same run.
    assert all(torch.equal(a, b) for a, b in zip(before, own.state_dict().values(), strict=True))
    second = run(federation=federation, model=own, loss="wsm", **FAST, out=tmp_path / "b")
    assert bits(first.folder) == bits(second.folder)
    assert first.config.model.name == "given:Net"
    assert first.accuracy > 0.4
    trained = first.model()
    assert isinstance(trained, Net)
    assert not trained.training
    assert not torch.equal(trained.body.weight, own.body.weight)


def test_a_federation_that_is_given_has_its_parts_already() -> None:
    for key, value in {"split": {"validation": 0.2}, "data": "mnist", "public": {"share": 0.1}}.items():
        with pytest.raises(InputError, match=f"{key} is part of the federation"):
            run(federation=blobs(), model=net(), **{**FAST, key: value})


def test_batches_larger_than_clients_and_double_precision_and_no_evaluation(tmp_path: Path) -> None:
    done = run(
        **{
            **NAMED,
            "training": {"batch_size": 10_000, "epochs": 2},
            "model": {"name": "mlp", "hidden": [4], "dtype": "float64"},
            "evaluation": {"every": 0, "last": 0},
        },
        out=tmp_path,
    )
    assert [record["steps"] for record in done.records] == [[2, 2]] * 4
    assert all("test" not in record and "forgetting" not in record for record in done.records)
    assert np.isnan(done.accuracy)
    assert np.isnan(done.forgetting)
    assert done.model().classifier.weight.dtype == torch.float64
    assert done.finished
    with pytest.raises(InputError, match="has no best model"):
        done.weights("best")
    assert "accuracy nan" in repr(done)


# What a run says of itself.


def test_predictions_with_and_without_a_prior(tmp_path: Path) -> None:
    federation = blobs()
    done = run(federation=federation, model=net(), **FAST, out=tmp_path)
    x = federation.data.test.x
    said = done.predict(x)
    assert said.tolist() == done.model()(x).argmax(1).tolist()
    assert np.array_equal(said, done.predict(x.numpy()))
    assert np.array_equal(said, done.predict(x.double()))
    assert (said == federation.data.test.y.numpy()).mean() == done.records[-1]["test"]["accuracy"]
    assert np.array_equal(said, done.predict(x, prior=[1, 1, 1]))
    assert set(done.predict(x, prior=[0, 5, 0])) == {1}
    assert set(done.predict(x, prior=torch.tensor([0.2, 0.0, 0.8]))) <= {0, 2}
    with torch.no_grad():
        by_hand = (done.model()(x) + torch.tensor([0.1, 0.2, 0.7]).log()).argmax(1)
    assert done.predict(x, prior=np.array([0.1, 0.2, 0.7])).tolist() == by_hand.tolist()
    with pytest.raises(InputError):
        done.predict(x, prior=[0, 0, 0])


def test_each_model_is_a_module_of_its_own(tmp_path: Path) -> None:
    federation = blobs()
    done = run(federation=federation, model=net(), **FAST, out=tmp_path)
    last, best = done.model("last"), done.model("best")
    assert best is not last
    with torch.no_grad():
        best.classifier.bias.add_(9.0)
    before = last.classifier.bias.clone()
    done.predict(federation.data.test.x)
    done.model("best")
    assert torch.equal(last.classifier.bias, before)
    assert torch.equal(done.model().classifier.bias, before)
    assert not torch.equal(done.model("best").classifier.bias, best.classifier.bias)


def test_metrics_as_arrays(tmp_path: Path) -> None:
    done = run(**{**NAMED, "rounds": 6, "evaluation": {"every": 3, "last": 2}}, out=tmp_path)
    rounds, accuracy = done.series("test.accuracy")
    assert rounds.tolist() == [2, 3, 5, 6]
    assert done.accuracy == pytest.approx(accuracy[-2:].mean())
    assert done.series("test.per_class")[1].shape == (4, 10)
    assert done.series("lr")[1].tolist() == [0.2] * 6
    assert done.series("nothing.at.all")[0].tolist() == []
    rounds, lost = done.series("forgetting.round")
    assert rounds.tolist() == [3, 6]
    assert done.forgetting == pytest.approx((2 * lost[0] + 3 * lost[1]) / 5)
    assert done.weights("best").parameters.shape == done.weights().parameters.shape
    assert "finished after round 6" in repr(done)


def test_the_result_is_the_mean_of_the_last_rounds_that_were_reached(tmp_path: Path) -> None:
    def accuracy(values: list[float], **config: Any) -> float:
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        folder.mkdir()
        (folder / "config.toml").write_text(to_toml({"rounds": 50, **config}))
        lines = [{"round": round, "test": {"accuracy": value}} for round, value in enumerate(values, 1)]
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        return Run(folder).accuracy

    early = [0.0] * 10 + [0.5] * 10
    assert accuracy(early) == accuracy(early, rounds=20) == 0.5
    assert accuracy([*early, 0.8, 1.0], evaluation={"last": 2}) == pytest.approx(0.9)
    assert accuracy([*early, 1.0], evaluation={"last": 0}) == 1.0
    assert np.isnan(accuracy([]))


def test_the_environment_is_recorded(tmp_path: Path) -> None:
    done = run(**NAMED, out=tmp_path)
    facts = json.loads((done.folder / "environment.json").read_text())
    assert facts["torch"] == torch.__version__
    assert facts["cores"] == os.cpu_count()
    assert len(facts["data_sha256"]) == len(facts["partition_sha256"]) == 64


# What is refused, and what is left behind then.


@pytest.mark.parametrize(
    "bad",
    [
        {"method": "none"},
        {"participation": 99},
        {"training": {"lr": float("nan")}},
        {"engine": {"name": "process", "device": "banana"}},
        {"partition": {"clients": 10**6}},
        {"rouns": 3},
    ],
)
def test_bad_input_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: dict[str, Any]
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    for out in (tmp_path / "run", None):
        with pytest.raises(InputError) as caught:
            run(**{**NAMED, **bad}, out=out)
        assert "\n" not in str(caught.value)
    assert list(tmp_path.rglob("*")) == [tmp_path / "tmp"]


def test_an_engine_that_cannot_be_had_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none(*_: Any) -> None:
        raise InputError("it is not there")

    monkeypatch.setattr(runs, "make_engine", none)
    with pytest.raises(InputError, match="not there"):
        run(**NAMED, out=tmp_path / "run")
    assert list(tmp_path.iterdir()) == []


def test_a_run_is_not_overwritten(tmp_path: Path) -> None:
    run(**NAMED, out=tmp_path)
    before = everything(tmp_path)
    with pytest.raises(InputError, match="holds a run already; resume it, or name another folder"):
        run(**NAMED, out=tmp_path)
    assert everything(tmp_path) == before


def test_a_run_that_came_meanwhile_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*arguments: Any) -> Any:
        monkeypatch.undo()
        run(**NAMED, out=tmp_path)
        return runs.assemble(*arguments)

    monkeypatch.setattr(runs, "assemble", slowly)
    with pytest.raises(InputError, match="holds a run already; resume it, or name another folder"):
        run(**{**NAMED, "rounds": 5, "seed": 1}, out=tmp_path)
    assert Run(tmp_path).config.seed == 0
    assert len(Run(tmp_path).records) == 4


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="holds other files and no run; name a new folder or an empty one"):
        run(**NAMED, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    for read in (Run, resume):
        with pytest.raises(InputError, match="is no run folder"):
            read(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "config.toml").write_text("rounds = 3\n")
    with pytest.raises(InputError, match="has no model yet"):
        Run(tmp_path).weights()


# Going on.


class Stopped(Exception):
    pass


def stop_after(round: int, error: type[BaseException] = Stopped) -> Any:
    def on_round(record: dict[str, Any]) -> None:
        if record["round"] == round:
            raise error

    return on_round


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


def test_more_rounds_and_another_engine_may_be_asked_for(tmp_path: Path) -> None:
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
    with pytest.raises(InputError, match="has done 3 rounds, which cannot become 2"):
        resume(done.folder, rounds=2)
    assert (done.folder / "config.toml").read_bytes() == before


def test_more_rounds_of_a_run_without_its_checkpoints_are_refused(tmp_path: Path) -> None:
    run(**{**NAMED, "rounds": 2}, out=tmp_path)
    shutil.rmtree(tmp_path / "checkpoints")
    before = everything(tmp_path)
    with pytest.raises(InputError, match="no checkpoint that can be read"):
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
    with pytest.raises(InputError, match=r"no client has a validation part: set split\.validation"):
        run(**values, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    folder = run(**{**values, "stop": {}}, out=tmp_path / "run").folder
    with pytest.raises(InputError, match=r"stop\.target"):
        resume(folder, stop={"target": 0.5})


def test_a_cohort_may_not_change(tmp_path: Path) -> None:
    engine = {"name": "vectorized", "cohort": 2}
    run(**{**NAMED, "rounds": 1, "engine": engine}, out=tmp_path)
    with pytest.raises(InputError, match=r"engine\.cohort is 2 in .* and must stay so"):
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
    said = caplog.messages
    assert len(said) == 2
    assert "torch was '1.0'" in said[0]
    assert "cpu was 'an abacus'" in said[1]


def test_other_data_are_refused(tmp_path: Path) -> None:
    run(federation=blobs(), model=net(), **FAST, out=tmp_path)
    before = everything(tmp_path)
    with pytest.raises(InputError, match=r"the data of .* is not what it was"):
        resume(tmp_path, federation=blobs(seed=1), model=net())
    with pytest.raises(InputError, match=r"the partition of .* is not what it was"):
        resume(tmp_path, federation=blobs(alpha=9.0), model=net())
    with pytest.raises(InputError, match=r"model of .* has 75 parameters and the one given 84"):
        resume(tmp_path, federation=blobs(), model=Net(hidden=9))
    assert everything(tmp_path) == before


def test_own_objects_are_handed_over_again(tmp_path: Path) -> None:
    whole = run(federation=blobs(), model=net(), **FAST, out=tmp_path / "whole")
    run(federation=blobs(), model=net(), **{**FAST, "rounds": 2}, out=tmp_path / "parts")
    with pytest.raises(InputError, match="hand it over again as federation"):
        resume(tmp_path / "parts", rounds=4)
    with pytest.raises(InputError, match="hand it over again as model"):
        resume(tmp_path / "parts", rounds=4, federation=blobs())
    done = resume(tmp_path / "parts", rounds=4, federation=blobs(), model=net())
    assert bits(done.folder) == bits(whole.folder)


def test_another_public_set_is_refused(tmp_path: Path) -> None:
    x, y = np.zeros((40, 8, 8), np.uint8), np.arange(40) % 10
    np.savez(tmp_path / "p.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    values = {**NAMED, "public": {"data": str(tmp_path / "p.npz")}}
    run(values, out=tmp_path / "run")
    np.savez(tmp_path / "p.npz", x_train=x + 1, y_train=y, x_test=x, y_test=y)
    with pytest.raises(InputError, match=r"the public of .* is not what it was"):
        resume(tmp_path / "run")


def test_a_broken_newest_checkpoint_is_told_and_the_run_goes_on_to_the_same_bits(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    whole = run(**NAMED, out=tmp_path / "whole")
    with pytest.raises(Stopped):
        run(**NAMED, out=tmp_path / "parts", on_round=stop_after(3))
    newest = checkpoints(tmp_path / "parts")[-1]
    newest.write_bytes(newest.read_bytes()[:100])
    done = resume(tmp_path / "parts")
    said = caplog.messages
    assert len(said) == 1
    assert "cannot be read" in said[0]
    assert bits(done.folder) == bits(whole.folder)


def test_dropout_and_batch_normalization_of_the_users_own(tmp_path: Path) -> None:
    own = nn.Sequential(nn.Linear(5, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 3))
    state = torch.get_rng_state()
    folders = [
        run(federation=blobs(), model=own, **{**FAST, "engine": engine}, out=tmp_path / engine).folder
        for engine in ("serial", "process")
    ]
    assert bits(folders[0]) == bits(folders[1])
    assert torch.equal(state, torch.get_rng_state())


def test_threads_are_as_they_were(tmp_path: Path) -> None:
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        with pytest.raises(Stopped):
            run(**NAMED, out=tmp_path, on_round=stop_after(1))
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_a_client_with_one_sample(tmp_path: Path) -> None:
    ids = np.array([0, *[1] * 9, *[2] * 10])
    x = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    federation = Federation.from_arrays(x, np.arange(20) % 3, x, np.arange(20) % 3, client_ids=ids)
    done = run(federation=federation, model=net(), **{**FAST, "participation": 1.0}, out=tmp_path)
    assert done.records[-1]["sizes"] == [9, 8, 1]


def test_a_run_of_objects_is_opened_again_with_them(tmp_path: Path) -> None:
    federation, model = blobs(), nn.Linear(5, 3)
    made = run(federation=federation, model=model, out=tmp_path, rounds=2, probes=[], engine="serial")
    x = federation.data.test.x.numpy()
    opened = Run(tmp_path, federation=federation, model=model)
    np.testing.assert_array_equal(opened.predict(x), made.predict(x))
    with pytest.raises(InputError, match="hand it over again as federation="):
        Run(tmp_path).predict(x)
    with pytest.raises(InputError, match="federation is a tuple"):
        Run(tmp_path, federation=(x, x))  # type: ignore[arg-type]

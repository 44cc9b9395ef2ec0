"""Running, resuming and reading runs, as a Python user does it."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import eunoe
from eunoe.config.schema import make_config
from eunoe.config.settings import to_toml
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.losses.wsm import WSM
from eunoe.methods.fedavg import FedAvg
from eunoe.simulation import running as runs
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from tests.helpers import Net, blobs
from tests.small_runs import FAST, NAMED, Stopped, bits, everything, net, stop_after

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
        with pytest.raises(InputError, match=f"{key} cannot be combined with federation"):
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
    predicted = done.predict(x)
    assert predicted.tolist() == done.model()(x).argmax(1).tolist()
    assert np.array_equal(predicted, done.predict(x.numpy()))
    assert np.array_equal(predicted, done.predict(x.double()))
    assert (predicted == federation.data.test.y.numpy()).mean() == done.records[-1]["test"]["accuracy"]
    assert np.array_equal(predicted, done.predict(x, prior=[1, 1, 1]))
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
    with pytest.raises(
        InputError, match=r"no round of this run has 'test\.acuracy': did you mean 'test\.accuracy'"
    ):
        done.series("test.acuracy")
    with pytest.raises(InputError, match="no round of this run has 'nothing': there are backwards, "):
        done.final("nothing")
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


def test_an_engine_that_cannot_start_leaves_nothing_behind(
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
    with pytest.raises(InputError, match="already has a run; resume it with eunoe run --resume"):
        run(**NAMED, out=tmp_path)
    assert everything(tmp_path) == before


def test_a_run_that_came_meanwhile_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slowly(*arguments: Any) -> Any:
        monkeypatch.undo()
        run(**NAMED, out=tmp_path)
        return runs.assemble(*arguments)

    monkeypatch.setattr(runs, "assemble", slowly)
    with pytest.raises(InputError, match="already has a run; resume it with eunoe run --resume"):
        run(**{**NAMED, "rounds": 5, "seed": 1}, out=tmp_path)
    assert Run(tmp_path).config.seed == 0
    assert len(Run(tmp_path).records) == 4


def test_other_files_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("precious")
    with pytest.raises(InputError, match="is not empty and has no run: pass a new or empty folder"):
        run(**NAMED, out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    for read in (Run, resume):
        with pytest.raises(InputError, match="is not a run folder"):
            read(tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "config.toml").write_text("rounds = 3\n")
    with pytest.raises(InputError, match="has no model yet"):
        Run(tmp_path).weights()


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
    with pytest.raises(InputError, match="pass it again as federation="):
        Run(tmp_path).predict(x)
    with pytest.raises(InputError, match="federation cannot be a tuple"):
        Run(tmp_path, federation=(x, x))  # type: ignore[arg-type]


def test_a_config_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "c.toml").write_text('rounds = 1\nmodel = "logistic"\nengine = "serial"\nprobes = []\n')
    for config in (tmp_path / "c.toml", str(tmp_path / "c.toml")):
        assert run(config, seed=3).config.seed == 3
    with pytest.raises(InputError, match="cannot read"):
        run("nowhere.toml")

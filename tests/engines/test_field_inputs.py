"""Samples of several fields: the same bits on every engine, and all that reads a batch works with them."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import eunoe
from eunoe.config.options import FeatureShift
from eunoe.core.fields import Fields, gather
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.simulation.export import export_model
from eunoe.simulation.running import resume, run
from tests.field_inputs import columns, field_federation, field_net
from tests.helpers import Net, blobs
from tests.small_runs import FAST, Stopped, bits, stop_after

CONFIG: dict[str, Any] = {**FAST, "rounds": 3, "participation": 4, "training": {"epochs": 2, "lr": 0.1}}


def test_engines_agree(tmp_path: Path) -> None:
    def made(**more: Any) -> Any:
        name = more.get("engine", "serial")
        return run({**CONFIG, **more}, federation=field_federation(), model=field_net(), out=tmp_path / name)

    serial = made()
    assert serial.records[-1]["test"]["loss"] < serial.records[0]["test"]["loss"]
    assert bits(made(engine="process").folder) == bits(serial.folder)
    vectorized = made(engine="vectorized")
    assert (vectorized.weights().parameters - serial.weights().parameters).abs().max() < 1e-5
    with pytest.raises(Stopped):
        run(
            CONFIG,
            federation=field_federation(),
            model=field_net(),
            out=tmp_path / "b",
            on_round=stop_after(2),
        )
    resume(tmp_path / "b", federation=field_federation(), model=field_net())
    assert bits(tmp_path / "b") == bits(serial.folder)


def test_no_vectorized_client_fell_back(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    values = {**CONFIG, "engine": "vectorized", "rounds": 2, "training": {"epochs": 8, "batch_size": 4}}
    run(values, federation=field_federation(), model=field_net(), out=tmp_path / "run")
    assert "one after the other" not in caplog.text


@pytest.mark.parametrize("engine", ["serial", "vectorized"])
def test_a_dict_of_one_tensor_has_the_bits_of_the_tensor(tmp_path: Path, engine: str) -> None:
    plain = blobs()
    x, y = plain.data.train, plain.data.test

    def made(train: Any, test: Any, name: str) -> Any:
        federation = Federation.from_arrays(train, x.y, test, y.y, clients=4, alpha=0.5)
        torch.manual_seed(3)
        values = {**CONFIG, "engine": engine, "probes": [{"metric": "client_matrix", "every": 1}]}
        return run(values, federation=federation, model=Net(), out=tmp_path / name)

    one, other = made(x.x, y.x, "tensor"), made({"x": x.x}, {"x": y.x}, "dict")
    assert bits(one.folder) == bits(other.folder)
    assert (one.folder / "probes.jsonl").read_bytes() == (other.folder / "probes.jsonl").read_bytes()


@pytest.mark.parametrize("method", ["scaffold", "fedntd", "moon", "fedcurv", "fedsam", "feddf", "central"])
def test_methods_take_fields(tmp_path: Path, method: str) -> None:
    federation = field_federation(public=0.2)
    values = {**CONFIG, "rounds": 2, "method": method}
    assert run(values, federation=federation, model=field_net(), out=tmp_path / "run").finished


def test_the_model_goes_out_and_takes_what_is_stored(tmp_path: Path) -> None:
    done = run(CONFIG, federation=field_federation(), model=field_net(), out=tmp_path / "run")
    said = done.records[-1]["test"]["accuracy"]
    test = done.simulation.federation.data.test
    assert isinstance(test.x, Fields)
    predicted = done.predict(dict(zip(test.x.labels, test.x.values, strict=True)))
    assert (predicted == test.y.numpy()).mean() == said
    batch = gather(test.x, torch.arange(len(test)))
    assert isinstance(batch, Fields)
    raw = done.model(raw=True)(**batch.whole())
    assert (raw.argmax(1).numpy() == predicted).all()
    export_model(done, tmp_path / "last.pt2", raw=True)
    program = torch.export.load(tmp_path / "last.pt2").module()
    for rows in (torch.arange(7), torch.tensor([1, 4, 9])):
        some = gather(test.x, rows)
        assert isinstance(some, Fields)
        assert torch.allclose(program(*some.values), raw[rows], atol=1e-5)
    export_model(done, tmp_path / "last.safetensors")
    with pytest.raises(InputError, match="x must have the fields ids, mask, numbers, category"):
        done.predict({"ids": np.zeros((1, 2), int)})


def test_forgetting_is_measured_in_any_loop_with_dicts() -> None:
    x, y = columns(20)
    federation = Federation.from_arrays(x, y, x, y, clients=1, partition="iid")
    batch = federation.inputs("test", torch.arange(20))
    assert isinstance(batch, Fields)
    data, labels = batch.whole(), torch.from_numpy(y)
    halves = [
        ({name: v[part] for name, v in data.items()}, labels[part]) for part in (slice(9), slice(9, 20))
    ]
    seen = []
    for given in ((data, labels), halves):
        watch = eunoe.Forgetting(given, classes=3)
        watch.start(field_net())
        watch.local(0, field_net())
        watch.aggregated(field_net())
        seen.append(watch.metrics[0]["test"]["accuracy"])
    logits = field_net()(**data).logits
    assert seen == [pytest.approx((logits.argmax(1) == labels).double().mean().item())] * 2


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (
            {"model": "mlp"},
            "model 'mlp' takes one tensor, not the fields ids, mask",
        ),
        ({"model": Net()}, "cannot take inputs of {ids: int64 .any., .*must be Tensor, not dict"),
        ({"model": field_net(), "method": "fedreg"}, "fedreg supports single-tensor inputs"),
        ({"model": field_net(), "augment": {"flip": True}}, "crop, flip and cutout need images"),
    ],
)
def test_what_fields_do_not_go_with(tmp_path: Path, more: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        eunoe.run(CONFIG, federation=field_federation(), out=tmp_path / "run", **more)
    assert not (tmp_path / "run").exists()


def test_fields_have_no_feature_shift(tmp_path: Path) -> None:
    federation = replace(field_federation(), shift=FeatureShift(kind="noise", strength=1.0))
    with pytest.raises(InputError, match="shift supports single-tensor inputs of fixed length"):
        run(CONFIG, federation=federation, model=field_net(), out=tmp_path / "run")

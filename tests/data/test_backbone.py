"""A frozen encoder: features are computed once, a head is trained on them, and both go out together."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from eunoe.config.options import FeatureShift
from eunoe.core.fields import Fields, gather
from eunoe.data.backbone import Backbone, apply_backbone, encode_data
from eunoe.errors import InputError
from eunoe.simulation.export import describe, export_model
from eunoe.simulation.running import run
from tests.field_inputs import FieldNet, field_federation
from tests.helpers import blobs
from tests.models.tiny_hf import tiny_values
from tests.small_runs import FAST, bits


class Doubled(nn.Module):
    """Inputs and their squares, by a factor; it counts its calls."""

    calls = 0

    def __init__(self, factor: float = 2.0) -> None:
        super().__init__()
        self.factor = nn.Parameter(torch.tensor(factor))

    def forward(self, x: Tensor) -> Tensor:
        Doubled.calls += 1
        return torch.cat([x, x.square()], 1) * self.factor


class FieldFeatures(FieldNet):
    """Features of several fields, of varying length."""

    def forward(self, ids: Tensor, mask: Tensor, numbers: Tensor, category: Tensor) -> Tensor:
        return self.features(ids, mask, numbers, category)


@pytest.fixture(autouse=True)
def _own_data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


def test_features_are_computed_once(tmp_path: Path) -> None:
    federation, Doubled.calls = blobs(), 0
    made = apply_backbone(federation, Doubled())
    x = federation.data.train.tensor
    assert torch.equal(made.data.train.tensor, torch.cat([2 * x, 2 * x.square()], 1))
    assert made.shape == (10,)
    calls = Doubled.calls
    assert calls > 0
    again = apply_backbone(blobs(), Doubled())
    assert torch.equal(again.data.train.tensor, made.data.train.tensor)
    assert Doubled.calls == calls
    # Other weights or other data are other features.
    assert not torch.equal(apply_backbone(blobs(), Doubled(3.0)).data.train.tensor, made.data.train.tensor)
    apply_backbone(blobs(seed=1), Doubled())
    assert len(list((tmp_path / "data" / "features").glob("*.npz"))) == 3


def test_the_callers_module_stays_as_it_is() -> None:
    module = nn.Sequential(nn.Linear(5, 2), nn.Dropout()).double()
    made = apply_backbone(blobs(), module)
    assert made.data.train.tensor.dtype == torch.float32
    assert module[0].weight.dtype == torch.float64
    assert all(part.training for part in module.modules())


def test_samples_of_varying_length_get_their_own_features() -> None:
    federation = field_federation(public=0.1)
    torch.manual_seed(3)
    module = FieldFeatures()
    made = apply_backbone(federation, module)
    assert made.public is made.data.train
    row = torch.tensor([7])
    alone = module(**federation.inputs("clients", row).whole())  # type: ignore[union-attr]
    assert torch.allclose(made.data.train.tensor[row], alone, atol=1e-6)


def test_a_head_trains_on_any_engine_and_takes_raw_inputs(tmp_path: Path) -> None:
    torch.manual_seed(3)
    module = FieldFeatures()

    def made(engine: str) -> Any:
        values = {**FAST, "engine": engine, "model": {"name": "logistic"}}
        return run(values, federation=apply_backbone(field_federation(), module), out=tmp_path / engine)

    serial, vectorized = made("serial"), made("vectorized")
    assert bits(made("process").folder) == bits(serial.folder)
    assert (vectorized.weights().parameters - serial.weights().parameters).abs().max() < 1e-5
    test = field_federation().data.test
    assert isinstance(test.x, Fields)
    predicted = serial.predict(dict(zip(test.x.labels, test.x.values, strict=True)))
    assert (predicted == test.y.numpy()).mean() == serial.records[-1]["test"]["accuracy"]
    batch = gather(test.x, torch.arange(len(test)))
    assert isinstance(batch, Fields)
    assert (serial.model(raw=True)(*batch.values).argmax(1).numpy() == predicted).all()
    export_model(serial, tmp_path / "last.pt2", raw=True)
    program = torch.export.load(tmp_path / "last.pt2").module()
    assert (program(*batch.values).argmax(1).numpy() == predicted).all()
    about = describe(serial.simulation.federation)
    assert about["backbone"] == {"name": "own"}
    assert about["input"]["ids"]["shape"] == [None]
    assert about["model_input"] == {"dtype": "float32", "shape": [8]}


def test_a_config_names_an_encoder(tmp_path: Path) -> None:
    values = tiny_values(tmp_path, model={"name": "logistic"})
    values["backbone"] = {
        "name": "hf",
        "from": values["model"].get("from", str(tmp_path / "bert")),
        "random": True,
    }
    done = run(values, out=tmp_path / "run")
    assert done.simulation.federation.shape == (16,)
    lengths = done.simulation.federation.data.train.tensor.square().sum(1)
    assert np.allclose(lengths.numpy(), 16, rtol=1e-4)
    assert done.values["backbone"]["pool"] == "mean"
    first = run({**values, "backbone": {**values["backbone"], "pool": "first"}}, out=tmp_path / "first")
    assert bits(first.folder) != bits(done.folder)
    again = run({**values, "engine": "vectorized"}, out=tmp_path / "again")
    assert (again.weights().parameters - done.weights().parameters).abs().max() < 1e-5


def test_workers_do_not_get_the_encoder() -> None:
    import pickle

    data = encode_data(blobs().data, Doubled())
    assert isinstance(data.backbone, Backbone)
    sent = pickle.loads(pickle.dumps(data))
    assert isinstance(sent.backbone.module, nn.Identity)


def test_what_cannot_be_encoded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the backbone cannot take these inputs: mat1 and mat2"):
        apply_backbone(blobs(), nn.Linear(7, 2))
    with pytest.raises(InputError, match="must return a tensor with one row of features per sample"):
        apply_backbone(blobs(), nn.Flatten(0))
    with pytest.raises(InputError, match="must return a tensor with one row of features"):
        apply_backbone(blobs(), nn.LSTM(5, 2))
    shifted = replace(blobs(), shift=FeatureShift(kind="noise", strength=1.0))
    with pytest.raises(InputError, match="cannot be combined with a feature shift"):
        apply_backbone(shifted, Doubled())
    values = tiny_values(tmp_path, model="logistic")
    for backbone, says in (
        ({"name": "hf"}, "backbone 'hf' needs the option 'from'"),
        ({"name": "hf", "from": "nobody/nothing"}, "nobody/nothing cannot be loaded"),
        ({"name": "hf", "from": "x", "polo": 1}, "backbone 'hf' has no option 'polo'"),
        ({"name": "bert"}, "no backbone is called 'bert'"),
    ):
        with pytest.raises(InputError, match=says):
            run({**values, "backbone": backbone}, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()

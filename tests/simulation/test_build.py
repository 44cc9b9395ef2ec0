"""From a configuration to a simulation: what is built, and what does not fit together."""

import math
import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from eunoe.config.options import FeatureShift
from eunoe.config.schema import make_config
from eunoe.config.settings import to_toml
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.losses.wsm import WSM
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.resuming import resolved
from tests.helpers import Net, blobs, make_simulation

SMALL: dict[str, Any] = {"partition": {"clients": 5}, "engine": "serial"}


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ({"method": "fedavgg"}, "no method is called 'fedavgg'; did you mean 'fedavg'?"),
        ({"loss": "wms"}, "no loss is called 'wms'; did you mean 'wsm'?"),
        ({"model": "mpl"}, "no model is called 'mpl'; did you mean 'mlp'?"),
        ({"data": "digit"}, "no data set is called 'digit'; did you mean 'digits'?"),
        ({"partition": "dirichlt"}, "no partition is called 'dirichlt'; did you mean 'dirichlet'?"),
        ({"server_optimizer": "adm"}, "no server optimizer is called 'adm'; did you mean 'adam'?"),
        ({"method": {"mu": 3}}, "method 'fedavg' has no option 'mu'"),
        ({"partition": {"alpha": 0}}, "alpha: input should be greater than 0 (not 0)"),
        ({"partition": {"alpha": -1.0}}, "alpha: input should be greater than 0"),
        ({"partition": {"clients": 100_000}}, "100,000 clients cannot share 1,442 samples"),
        ({"participation": 6}, "participation=6 is more than the 5 clients"),
        ({"method": "eunoe.losses.wsm:WSM"}, "must derive from eunoe.methods.Method"),
        ({"loss": "eunoe.methods.fedavg:FedAvg"}, "must derive from eunoe.losses.Loss"),
        (
            {"server_optimizer": "eunoe.losses.wsm:WSM"},
            "must derive from eunoe.server.ServerOptimizer",
        ),
        ({"partition": "eunoe.losses.wsm:WSM"}, "returned a WSM; it must return a Callable"),
        ({"data": "eunoe.losses.wsm:WSM"}, "returned a WSM, not an eunoe DataSet"),
        ({"model": "eunoe.losses.wsm:WSM"}, "returned a WSM; it must return a Module"),
        ({"model": "given:Net"}, "model was a user-provided object: pass it again as model=..."),
        ({"data": "given"}, "federation was a user-provided object"),
        ({"engine": {"name": "serial", "device": "banana"}}, "engine.device: 'banana' cannot be used"),
        ({"engine": {"name": "serial", "device": "meta"}}, "engine.device: 'meta' cannot be used"),
        ({"model": "lenet"}, "needs images"),
        ({"model": {"name": "mlp", "start_from": "none.pt"}}, "model file none.pt not found"),
        ({"public": {"share": 0.1, "alpha": math.inf}}, "public.alpha: input should be a finite number"),
        ({"probes": [{"metric": "drift", "at": [math.nan]}]}, "at.0: input should be "),
        ({"probes": [{"metric": "drift", "at": [1.5]}]}, "at.0: input should be less than or equal to 1"),
        (
            {"method": "central", "loss": "wsm"},
            "loss has no effect with method='central'",
        ),
    ],
)
def test_what_does_not_fit_is_reported_in_one_line(values: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError) as caught:
        assemble(make_config({**SMALL, **values}))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


class Pair(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.layer(x), x


@pytest.mark.parametrize(
    ("net", "says"),
    [
        (Net(classes=4), "returns outputs of shape (4,), but the data have 3 classes"),
        (Net(classes=2), "returns outputs of shape (2,), but the data have 3 classes"),
        (Net(inputs=6), "cannot take inputs of shape (5,)"),
        (Pair(), "must return a tensor or an object with `logits`, not tuple"),
        (nn.ReLU(), "no trainable parameter"),
    ],
)
def test_a_model_that_does_not_fit_the_data(net: nn.Module, says: str) -> None:
    with pytest.raises(InputError) as caught:
        make_simulation(net=net)
    assert says in str(caught.value)


class Between(Net):
    """Something comes between its features and its classifier."""

    def __init__(self, between: nn.Module, hidden: int = 8) -> None:
        super().__init__()
        self.between = between
        self.classifier = nn.Linear(hidden, 3)

    def features(self, x: torch.Tensor) -> torch.Tensor:
        return self.body(x)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.classifier(self.between(self.features(x)))


# The classifier gives other logits of the features, or cannot take them.
@pytest.mark.parametrize("net", [Between(nn.ReLU()), Between(nn.AdaptiveAvgPool1d(4), 4)])
@pytest.mark.parametrize("method", ["moon", "labelwise"])
def test_features_that_do_not_give_the_logits_are_none(net: nn.Module, method: str) -> None:
    assert not make_simulation(net=net).context.model.has_features
    assert make_simulation(net=Between(nn.Identity())).context.model.has_features
    with pytest.raises(InputError, match=re.escape("classifier(features(x))")):
        make_simulation(net=net, method=method)


def test_the_start_depends_on_the_seed_alone() -> None:
    values = {**SMALL, "model": {"name": "mlp", "hidden": [8]}}
    state = torch.get_rng_state()
    first = assemble(make_config(values))[0].model.parameters
    again = assemble(make_config({**values, "loss": "wsm", "partition": {"clients": 7}}))
    other = assemble(make_config({**values, "seed": 1}))[0].model.parameters
    assert torch.equal(first, again[0].model.parameters)
    assert not torch.equal(first, other)
    assert torch.equal(state, torch.get_rng_state())


def test_the_users_own_model_stays_as_it_was() -> None:
    net = Net()
    simulation = make_simulation(net=net)
    before = net.body.weight.clone()
    assert torch.equal(simulation.model.parameters[: before.numel()], before.flatten())
    simulation.model.parameters.zero_()
    assert torch.equal(net.body.weight, before)


def test_float64_is_float64_throughout() -> None:
    simulation = make_simulation(dtype="float64")
    assert simulation.model.dtype == simulation.federation.dtype == torch.float64
    assert simulation.federation.inputs("clients", torch.zeros(1, dtype=torch.int64)).dtype == torch.float64


def test_a_client_without_a_training_sample_is_refused() -> None:
    federation = blobs()
    offsets = np.append(federation.offsets, federation.offsets[-1])
    ends = [np.append(end, end[-1]) for end in (federation.train_end, federation.validation_end)]
    ends[0][-1] = ends[1][-1] = offsets[-1]
    odd = Federation(federation.data, federation.order, offsets, *ends)
    with pytest.raises(InputError, match="1 clients have no training sample"):
        make_simulation(odd)


def test_batch_normalization_needs_more_than_one_number_to_normalize_by() -> None:
    flat = nn.Sequential(nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    assert make_simulation(net=flat).context.model.has_batch_norm
    with pytest.raises(InputError, match="batch normalization cannot train on a single sample"):
        make_simulation(net=flat, training={"batch_size": 1})
    with pytest.raises(InputError, match="batch normalization cannot train on a single sample"):
        make_simulation(lone(), net=flat)
    for method in (
        {"name": "finetune", "server_batch_size": 1},
        {"name": "flashback", "server_batch_size": 1},
        {"name": "feddf", "batch_size": 1},
    ):
        with pytest.raises(InputError, match="batch norm cannot train on one sample"):
            make_simulation(blobs(public=0.2), net=flat, method=method)
        assert make_simulation(blobs(public=0.2), net=Net(), method=method)
    assert make_simulation(
        blobs(public=0.2), net=flat, method={"name": "feddf", "batch_size": 1, "freeze_statistics": True}
    )
    # Where it is over the pixels of an image, one image is enough.
    images = nn.Sequential(nn.Unflatten(1, (1, 5)), nn.BatchNorm1d(1), nn.Flatten(), nn.Linear(5, 3))
    before = images[1].num_batches_tracked.clone()
    simulation = make_simulation(lone(), net=images)
    assert torch.equal(simulation.model.int_buffers, before.reshape(1))


def test_changes_of_images_need_images() -> None:
    turned = replace(blobs(), shift=FeatureShift(kind="rotation", strength=9.0))
    with pytest.raises(InputError, match=r"only images .* can be rotated"):
        make_simulation(turned)
    with pytest.raises(InputError, match="crop, flip and cutout need images"):
        make_simulation(augment={"flip": True})
    assert assemble(make_config({**SMALL, "augment": {"flip": True}, "shift": turned.shift}))


def lone() -> Federation:
    """A federation in which one client has a single sample."""
    ids = np.array([0, *[1] * 9, *[2] * 10])
    points = np.random.default_rng(0).normal(size=(20, 5)).astype(np.float32)
    labels = np.arange(20) % 3
    return Federation.from_arrays(points, labels, points, labels, client_ids=ids)


def test_a_method_that_merges_by_itself_takes_no_server_step() -> None:
    values = {**SMALL, "method": "feddf", "server_optimizer": "adam"}
    with pytest.raises(InputError, match="method='feddf': it computes the new weights itself"):
        assemble(make_config(values))


def test_defaults_are_written_out_and_read_back_to_the_same_config() -> None:
    config = make_config({**SMALL, "loss": "logit_adjusted", "method": "fedadam", "model": {"hidden": [9]}})
    values = resolved(config)
    assert values["loss"] == {"name": "logit_adjusted", "tau": 1.0}
    assert values["model"]["hidden"] == [9]
    assert values["model"]["dtype"] == "float32"
    assert values["method"] == {"name": "fedavg", "weighting": "samples"}
    assert values["server_optimizer"]["name"] == "adam"
    assert values["partition"] == {"name": "dirichlet", "clients": 5, "alpha": 0.1}
    again = make_config(tomllib.loads(to_toml(values)))
    assert to_toml(resolved(again)) == to_toml(values)


def test_user_objects_are_not_looked_up() -> None:
    config = make_config({"data": "given", "partition": "given", "model": "given:Net", "loss": "given:WSM"})
    values = resolved(config, UserObjects(federation=blobs(), model=Net(), loss=WSM()))
    assert values["model"]["name"] == "given:Net"
    assert values["loss"] == {"name": "given:WSM"}


def test_a_model_starts_from_a_file(tmp_path: Path) -> None:
    net = Net()
    torch.save(net.state_dict(), tmp_path / "start.pt")
    values = {"model": {"name": "given", "start_from": str(tmp_path / "start.pt")}}
    simulation = make_simulation(net=Net(), **values)
    assert torch.equal(simulation.model.module.body.weight, net.body.weight)


def test_clients_that_only_shrink_the_model_are_warned_of() -> None:
    labels = np.array([0, 0, 1, 1, 1, 2])
    x = np.zeros((6, 5), np.float32)
    federation = Federation.from_arrays(x, labels, x, labels, client_ids=[0, 0, 1, 1, 2, 2], validation=0)

    def warnings(loss: str, **training: Any) -> list[str]:
        values = {"data": "given", "partition": "given", "model": "given", "loss": loss, "training": training}
        return assemble(make_config(values), UserObjects(federation=federation, model=Net()))[1]

    assert "2 of 3 clients have one class only" in warnings("wsm", weight_decay=0.1)[0]
    assert not warnings("ce", weight_decay=0.1)
    assert not warnings("wsm")
    assert not warnings("wsm", weight_decay=0.1, single_class="skip")


def test_a_classifier_without_bias_makes_fedrs_the_papers() -> None:
    simulation = make_simulation(model={"name": "given", "classifier_bias": False}, loss="fedrs")
    assert "classifier.bias" not in simulation.model.names
    assert len(simulation.model.names) == 3
    x = torch.randn(4, 5)
    weight = simulation.model.module.get_parameter("classifier.weight")
    psi = simulation.loss.terms(torch.tensor([3.0, 0.0, 1.0]))
    by_paper = torch.stack([psi[c] * (simulation.model.module.features(x) @ weight[c]) for c in range(3)], 1)
    torch.testing.assert_close(simulation.model.forward(x) * psi, by_paper)
    with pytest.raises(InputError, match="classifier_bias"):
        make_simulation(net=nn.Linear(5, 3), model={"name": "given", "classifier_bias": False})

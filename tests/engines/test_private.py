"""Private parameters: which entries they are, what a client keeps of them, and what the server sees."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from eunoe.config.options import Private
from eunoe.core.flat_model import FlatModel, Weights
from eunoe.engines.private import PrivatePart
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.server.updates import Broadcast
from tests.helpers import Net, make_simulation, train_one


class Normed(nn.Module):
    """Batch normalization between two layers."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.bn, self.classifier = nn.Linear(5, 4), nn.BatchNorm1d(4), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.classifier(torch.relu(self.bn(self.body(x))))


def part(net: nn.Module, *names: str) -> dict[str, int]:
    """The number of private entries of each vector."""
    masks = PrivatePart.of(FlatModel(net), Private(names=names)).masks
    return {name: int(mask.sum()) for name, mask in masks.items()}


def test_names_layers_patterns_and_norm() -> None:
    assert part(Net(), "classifier") == {"parameters": 27, "float_buffers": 0, "int_buffers": 0}
    assert part(Net(), "*.bias")["parameters"] == 8 + 3
    assert part(Net(), "body", "classifier.bias")["parameters"] == 48 + 3
    # Weight and bias, mean and variance, the number of batches.
    assert (
        part(Normed(), "norm")
        == part(Normed(), "bn")
        == {
            "parameters": 8,
            "float_buffers": 8,
            "int_buffers": 1,
        }
    )
    net = nn.Sequential(nn.Linear(5, 4), nn.LayerNorm(4), nn.GroupNorm(2, 4), nn.Linear(4, 3))
    assert part(net, "norm")["parameters"] == 16


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["head"], "private: 'head' matches no parameter of the model, which has body.weight, body.bias"),
        (["classifier", "norm"], "private: 'norm' matches no parameter"),
        (["*"], "private matches every parameter"),
    ],
)
def test_patterns_that_match_nothing_or_everything_are_refused(names: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_simulation(private=names, probes=[])


class Sum(nn.Module):
    """Logits are the sum of a shared and a private vector, whatever the input."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.own = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        return (self.shared + self.own).expand(len(x), 3)


LR = 0.5


def make(**values: Any) -> Simulation:
    training = {"epochs": 1, "batch_size": 0, "lr": LR, **values.pop("training", {})}
    return make_simulation(net=Sum(), dtype="float64", private="own", probes=[], training=training, **values)


def gradient(simulation: Simulation, logits: Tensor) -> Tensor:
    """Softmax minus the shares of client 0's labels."""
    counts = simulation.federation.counts(0).double()
    return torch.softmax(logits, 0) - counts / counts.sum()


def sent(shared: list[float], own: list[float]) -> Weights:
    empty = torch.zeros(0, dtype=torch.float64)
    return Weights(torch.tensor(shared + own).double(), empty, torch.zeros(0, dtype=torch.int64))


def test_a_client_keeps_its_private_part_and_sends_none_of_it() -> None:
    simulation = make()
    model = sent([0.3, 0.0, -0.1], [0.5, 0.0, 0.0])
    first, state = train_one(simulation, 0, Broadcast(1, model), {})
    start = torch.tensor([0.8, 0.0, -0.1]).double()
    step = LR * gradient(simulation, start)
    torch.testing.assert_close(first.weights.parameters[:3], model.parameters[:3] - step)
    assert first.weights.parameters[3:].tolist() == [0.5, 0.0, 0.0]
    torch.testing.assert_close(state, {"private parameters": model.parameters[3:] - step})
    # In its next participation it starts from the server's shared part and its own private part.
    newer = sent([1.0, 0.0, 0.0], [9.0, 9.0, 9.0])
    second, after = train_one(simulation, 0, Broadcast(2, newer), state)
    again = LR * gradient(simulation, newer.parameters[:3] + state["private parameters"])
    torch.testing.assert_close(second.weights.parameters[:3], newer.parameters[:3] - again)
    assert second.weights.parameters[3:].tolist() == [9.0, 9.0, 9.0]
    torch.testing.assert_close(after["private parameters"], state["private parameters"] - again)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_head_epochs_train_the_private_part_first_and_then_the_rest(momentum: float) -> None:
    simulation = make(training={"epochs": 3, "head_epochs": 1, "momentum": momentum})
    model = sent([0.3, 0.0, -0.1], [0.0, 0.0, 0.0])
    update, state = train_one(simulation, 0, Broadcast(1, model), {})
    shared, moved = model.parameters[:3], torch.zeros(3).double()
    own = -LR * gradient(simulation, shared)
    torch.testing.assert_close(state["private parameters"], own)
    for _ in range(2):
        moved = momentum * moved + gradient(simulation, shared + own)
        shared = shared - LR * moved
    torch.testing.assert_close(update.weights.parameters[:3], shared)


def test_the_first_step_of_adam_for_the_shared_part_is_as_long_as_any_first_step() -> None:
    simulation = make(training={"epochs": 2, "head_epochs": 1, "optimizer": "adam"})
    model = sent([0.3, 0.0, -0.1], [0.0, 0.0, 0.0])
    update, state = train_one(simulation, 0, Broadcast(1, model), {})
    length = torch.full((3,), LR).double()
    moved = update.weights.parameters[:3] - model.parameters[:3]
    torch.testing.assert_close(state["private parameters"].abs(), length, rtol=1e-5, atol=0)
    torch.testing.assert_close(moved.abs(), length, rtol=1e-5, atol=0)


def test_corrections_of_a_method_leave_the_private_part_alone() -> None:
    simulation = make(method="scaffold")
    control = torch.tensor([0.1, 0.2, 0.3, 0.0, 0.0, 0.0]).double()
    model = sent([0.3, 0.0, -0.1], [0.5, 0.0, 0.0])
    update, state = train_one(simulation, 0, Broadcast(1, model, {"control": control}), {})
    step = gradient(simulation, torch.tensor([0.8, 0.0, -0.1]).double())
    torch.testing.assert_close(
        update.weights.parameters[:3], model.parameters[:3] - LR * (step + control[:3])
    )
    torch.testing.assert_close(state["private parameters"], model.parameters[3:] - LR * step)
    # Option II: (w - y) / (lr K) - c, which is the gradient.
    torch.testing.assert_close(state["control"], torch.cat([step, torch.zeros(3).double()]))
    torch.testing.assert_close(update.uploads["control_change"], state["control"])


def test_the_mean_of_private_parts_is_that_of_the_newest_of_each_client() -> None:
    private = PrivatePart.of(FlatModel(Sum(), torch.float64), Private(names=("own",)))
    model, sums = sent([1.0, 2.0, 3.0], [0.0, 0.0, 0.0]), dict[str, Tensor]()
    assert private.put_mean(model, sums) == model
    one, two, newer = ({"private parameters": torch.full((3,), x).double()} for x in (1.0, 4.0, 6.0))
    for old, new in (({}, one), ({}, two), (one, newer)):
        sums = private.replace(sums, old, new)
    assert private.put_mean(model, sums).parameters.tolist() == [1, 2, 3, 5, 5, 5]
    assert private.replace(sums, {}, {}) == sums


def test_what_is_sent_is_the_shared_part() -> None:
    private = PrivatePart.of(FlatModel(Normed()), Private(names=("norm",)))
    vector, start = torch.arange(8.0), torch.zeros(8)
    # All statistics are private; of a vector of another length, nothing is.
    assert private.pack("float_buffers", vector).tolist() == []
    assert private.unpack("float_buffers", torch.empty(0), start).tolist() == [0.0] * 8
    assert private.pack("work", torch.ones(1)).tolist() == [1.0]
    parameters = torch.arange(24.0 + 8 + 15)
    packed = private.pack("parameters", parameters)
    assert packed.tolist() == [*range(24), *range(32, 47)]
    assert len(packed) == private.packed_size("control", 47)
    assert private.unpack("control", packed, torch.zeros(47))[24:32].tolist() == [0.0] * 8


def test_options() -> None:
    assert Private.model_validate("norm") == Private(names=("norm",))
    with pytest.raises(InputError, match="head_epochs needs a fixed number of epochs above it"):
        make_simulation(private="body", training={"epochs": 2, "head_epochs": 2})

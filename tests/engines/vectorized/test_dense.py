"""Written-out steps of linear layers against autograd."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from eunoe.core.flat_model import FlatModel
from eunoe.engines.vectorized.dense import dense_layers, find_dense
from eunoe.methods.base import Method
from eunoe.methods.context import Batch
from eunoe.methods.fedprox import FedProx
from eunoe.models.mlp import MLP, Logistic
from tests.helpers import Net, make_simulation


def random_batch(clients: int, samples: int, features: int, masked: bool, seed: int) -> Batch:
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(clients, samples, features, dtype=torch.float64, generator=rng)
    y = torch.randint(0, 3, (clients, samples), generator=rng)
    mask = torch.rand(clients, samples, generator=rng) > 0.4
    mask[:, 0] = True
    return Batch(x, y, y, mask if masked else None)


@settings(deadline=None, max_examples=40)
@given(
    hidden=st.lists(st.integers(1, 5), max_size=3),
    clients=st.integers(1, 4),
    samples=st.integers(1, 6),
    bias=st.booleans(),
    masked=st.booleans(),
    shifted=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_gradients_losses_and_steps_are_those_of_autograd(
    hidden: list[int], clients: int, samples: int, bias: bool, masked: bool, shifted: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    sizes = [4, *hidden, 3]
    layers = [nn.Linear(i, o, bias=bias) for i, o in pairwise(sizes)]
    modules = [module for layer in layers for module in (layer, nn.ReLU())][:-1]
    model = FlatModel(nn.Sequential(*modules), torch.float64)
    dense = dense_layers(model)
    assert dense is not None
    weights = torch.randn(clients, len(model.parameters), dtype=torch.float64)
    batch, terms = random_batch(clients, samples, 4, masked, seed), None
    if shifted:
        terms = torch.randn(clients, 3, dtype=torch.float64)
        terms[0, 2] = -torch.inf
        batch.y[0] = batch.y[0] % 2
    gradient = dense.gradient(dense.split(weights), batch, terms)
    losses = dense.losses(dense.split(weights), batch, terms)
    rates = torch.rand(clients, 1, dtype=torch.float64)
    stepped = dense.copy(weights)
    dense.descend(stepped, batch, terms, rates)
    for k in range(clients):
        real = slice(None) if batch.mask is None else batch.mask[k]
        at = weights[k].clone().requires_grad_()
        logits = model.forward_at(at, batch.x[k][real]) + (0 if terms is None else terms[k])
        loss = F.cross_entropy(logits, batch.y[k][real])
        (expected,) = torch.autograd.grad(loss, at)
        torch.testing.assert_close(gradient[k], expected)
        torch.testing.assert_close(losses[k], loss.detach())
    after = dense.join(stepped, torch.empty_like(weights))
    torch.testing.assert_close(after, weights - rates * gradient)


def test_only_chains_of_linear_layers_that_all_train_are_written_out() -> None:
    assert dense_layers(FlatModel(MLP((2, 2), 3, hidden=(4, 5)))) is not None
    assert dense_layers(FlatModel(Logistic((4,), 3))) is not None
    assert dense_layers(FlatModel(nn.Sequential(nn.Flatten(), nn.Linear(4, 3)))) is not None
    assert dense_layers(FlatModel(Net())) is None
    assert dense_layers(FlatModel(nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3)))) is None
    assert dense_layers(FlatModel(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)))) is None
    partly = MLP((4,), 3, hidden=(4,))
    partly.classifier.requires_grad_(False)
    assert dense_layers(FlatModel(partly)) is None
    shared = nn.Linear(4, 4)
    assert dense_layers(FlatModel(nn.Sequential(shared, nn.ReLU(), shared))) is None


class Clipped(FedProx):
    """Its correction depends on all numbers of a vector."""

    def correct(self, client, gradient):
        return gradient / (1 + gradient.norm())


@pytest.mark.parametrize(
    ("method", "written"),
    [(Method(), True), (FedProx(), True), (Clipped(), False)],
    ids=lambda it: type(it).__name__,
)
def test_methods_with_an_elementwise_correction_are_written_out(method, written) -> None:
    simulation = make_simulation(net=MLP((5,), 3, hidden=(4,)))
    object.__setattr__(simulation, "method", method)
    assert (find_dense(simulation) is not None) is written


def test_weighted_classes_are_not_written_out() -> None:
    net = MLP((5,), 3, hidden=(4,))
    assert find_dense(make_simulation(net=net, loss="ce")) is not None
    assert find_dense(make_simulation(net=net, loss={"name": "ce", "class_weights": "balanced"})) is None

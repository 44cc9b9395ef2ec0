"""A client as a method sees it: frozen networks, gradients at other weights, weight decay."""

from dataclasses import replace

import torch

from eunoe.core.flat_model import Weights
from eunoe.methods.context import Batch, ClientContext
from eunoe.server.updates import Broadcast
from tests.helpers import begin, blobs, make_simulation
from tests.methods.helpers import Normed


def begun(**config: object) -> ClientContext:
    simulation = make_simulation(blobs(), Normed(5, 3), "float64", **config)
    return begin(simulation, 0, Broadcast(1, simulation.model.weights.copy()), {})[0]


def batch_of(client: ClientContext, size: int = 7) -> Batch:
    index = torch.arange(size)
    return Batch(*client.data(index), index)


def test_a_frozen_network_runs_in_evaluation_mode_and_leaves_no_trace() -> None:
    for augmented in (False, True):
        client = begun()
        data = replace(client.context.data, augmented=augmented)
        client.context = replace(client.context, data=data)
        start = client.start
        teacher = Weights(start.parameters + 0.1, start.float_buffers + 0.5, start.int_buffers)
        client.model.module.train()
        before = client.model.float_buffers.clone()
        client.freeze("teacher", teacher)
        batch = batch_of(client)
        said = client.frozen("teacher", batch)
        assert client.model.module.training
        assert torch.equal(client.model.float_buffers, before)
        assert not said.requires_grad
        client.model.load(teacher)
        with client.model.evaluating(), torch.no_grad():
            torch.testing.assert_close(said, client.model.forward(batch.x), rtol=0, atol=1e-14)


def test_the_gradient_is_of_the_mean_with_decay_and_that_elsewhere_without() -> None:
    client = begun(training={"weight_decay": 0.3})
    batch = batch_of(client)
    with client.model.evaluating():
        here = client.gradient(lambda: client.criterion(client.forward(batch.x), batch.y), batch)
        there = client.gradient_at(
            client.weights.clone(), lambda at: client.criterion(client.forward(batch.x, at), batch.y), batch
        )
    torch.testing.assert_close(here, there + 0.3 * client.weights, rtol=0, atol=1e-14)
    assert (client.forwards, client.backwards) == (14, 14)


def test_a_second_gradient_leaves_the_first_as_it_was() -> None:
    client = begun()
    batch = batch_of(client)
    first = client.gradient(lambda: client.criterion(client.forward(batch.x), batch.y), batch)
    kept = first.clone()
    client.weights.add_(0.1)
    second = client.gradient(lambda: client.criterion(client.forward(batch.x), batch.y), batch)
    assert torch.equal(first, kept)
    assert not torch.equal(second, kept)

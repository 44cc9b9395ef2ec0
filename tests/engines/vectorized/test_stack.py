"""A stack's batches against those that each client would have alone."""

import pytest
import torch

from eunoe.core.batches import plan_batches
from eunoe.core.rng import generator
from eunoe.engines.simulation import ClientData
from eunoe.engines.vectorized.stack import ClientStack, StackClient
from eunoe.server.updates import Broadcast
from tests.helpers import blobs, make_simulation


def plan(simulation, round, clients):
    simulation = simulation.in_round(round)
    broadcast = Broadcast(round, simulation.model.weights)
    members = [StackClient.plan(ClientData(simulation, client), broadcast) for client in clients]
    return ClientStack.of(members)


@pytest.mark.parametrize("training", [{"epochs": (1, 4), "batch_size": 4}, {"steps": 5}, {"batch_size": 0}])
def test_batches_are_those_of_each_client_alone(training):
    federation = blobs(6, 9, partition="quantity")
    simulation = make_simulation(federation, training=training)
    stack = plan(simulation, 3, [4, 1, 2, 5])
    assert sorted(stack.clients) == [1, 2, 4, 5]
    assert stack.steps == sorted(stack.steps, reverse=True)
    batches = list(stack.batches())
    for k, client in enumerate(stack.clients):
        rows = federation.rows(client)
        alone = plan_batches(len(rows), simulation.context.training, generator(0, "batches", 3, client))
        assert len(alone) == stack.steps[k]
        assert sum(map(len, alone)) == stack.samples[k]
        for step, positions in enumerate(alone):
            batch = batches[step]
            real = slice(None) if batch.mask is None else batch.mask[k]
            assert batch.index[k][real].tolist() == positions.tolist()
            expected = torch.from_numpy(rows[positions])
            assert torch.equal(batch.x[k][real], federation.inputs("clients", expected))
            assert torch.equal(batch.y[k][real], federation.data.train.y[expected])
    for step, batch in enumerate(batches):
        assert len(batch.y) == stack.active[step]


def test_label_counts_are_those_of_the_training_parts():
    federation = blobs(6, 12, partition="quantity", alpha=2.0)
    simulation = make_simulation(federation)
    stack = plan(simulation, 1, [3, 0, 5])
    for client, counts in zip(stack.clients, stack.counts, strict=True):
        assert counts.tolist() == federation.counts(client).tolist()


def test_equal_batches_are_distinguished_from_unequal_ones():
    simulation = make_simulation(blobs(4, 20), training={"batch_size": 5, "epochs": (1, 3)})
    assert len(set(simulation.federation.sizes.tolist())) == 1
    assert plan(simulation, 1, [0, 1, 2, 3]).equal
    simulation = make_simulation(blobs(4, 20, partition="quantity"), training={"batch_size": 5})
    assert not plan(simulation, 1, [0, 1, 2, 3]).equal

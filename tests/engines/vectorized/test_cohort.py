"""A cohort's batches against those that each client would have alone."""

import pytest
import torch

from eunoe.core.batches import plan_batches
from eunoe.core.rng import generator
from eunoe.engines.vectorized.cohort import Cohort
from tests.helpers import blobs, make_simulation


@pytest.mark.parametrize("exact", [False, True])
@pytest.mark.parametrize("training", [{"epochs": (1, 4), "batch_size": 4}, {"steps": 5}, {"batch_size": 0}])
def test_batches_are_those_of_each_client_alone(exact, training):
    federation = blobs(6, 9, partition="quantity")
    simulation = make_simulation(federation, training=training)
    context = simulation.context_in(3)
    cohort = Cohort.plan(simulation, context, [4, 1, 2, 5], exact)
    assert sorted(cohort.clients) == [1, 2, 4, 5]
    assert cohort.steps == sorted(cohort.steps, reverse=True)
    batches = list(cohort.batches())
    for k, client in enumerate(cohort.clients):
        rows = federation.rows(client)
        alone = plan_batches(len(rows), context.training, generator(0, "batches", 3, client))
        assert len(alone) == cohort.steps[k]
        assert sum(map(len, alone)) == cohort.samples[k]
        for step, positions in enumerate(alone):
            batch = batches[step]
            real = slice(None) if batch.mask is None else batch.mask[k]
            assert batch.index[k][real].tolist() == positions.tolist()
            expected = torch.from_numpy(rows[positions])
            assert torch.equal(batch.x[k][real], federation.inputs("clients", expected))
            assert torch.equal(batch.y[k][real], federation.data.train.y[expected])
    for step, batch in enumerate(batches):
        clients = cohort.active[step]
        assert len(batch.y) == clients if exact else clients <= len(batch.y) <= len(cohort)


def test_label_counts_are_those_of_the_training_parts():
    federation = blobs(6, 12, partition="quantity", alpha=2.0)
    simulation = make_simulation(federation)
    cohort = Cohort.plan(simulation, simulation.context_in(1), [3, 0, 5], exact=False)
    for client, counts in zip(cohort.clients, cohort.counts, strict=True):
        assert counts.tolist() == federation.counts(client).tolist()


def test_equal_batches_are_distinguished_from_unequal_ones():
    simulation = make_simulation(blobs(4, 20), training={"batch_size": 5, "epochs": (1, 3)})
    assert len(set(simulation.federation.sizes.tolist())) == 1
    assert Cohort.plan(simulation, simulation.context_in(1), [0, 1, 2, 3], exact=True).equal
    simulation = make_simulation(blobs(4, 20, partition="quantity"), training={"batch_size": 5})
    assert not Cohort.plan(simulation, simulation.context_in(1), [0, 1, 2, 3], exact=True).equal

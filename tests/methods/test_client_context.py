"""A client as a method sees it: frozen networks, gradients at other weights, weight decay."""

from dataclasses import replace

import torch

from eunoe.core.flat_model import Weights
from eunoe.methods.client_context import Batch, Local
from eunoe.training.client import Received, begin_client
from tests.helpers import blobs, make_job
from tests.methods.helpers import Normed


def begun(**config: object) -> Local:
    job = make_job(blobs(), Normed(5, 3), "float64", **config)
    return begin_client(job, 0, Received(1, job.model.weights.copy()), {})[0]


def batch_of(local: Local, size: int = 7) -> Batch:
    index = torch.arange(size)
    return Batch(*local.data(index), index)


def test_a_frozen_network_is_asked_in_evaluation_mode_and_leaves_no_trace() -> None:
    for augmented in (False, True):
        local = begun()
        local.setting = replace(local.setting, augmented=augmented)
        start = local.start
        teacher = Weights(start.parameters + 0.1, start.floats + 0.5, start.integers)
        local.model.module.train()
        before = local.model.floats.clone()
        local.freeze("teacher", teacher)
        batch = batch_of(local)
        said = local.frozen("teacher", batch)
        assert local.model.module.training
        assert torch.equal(local.model.floats, before)
        assert not said.requires_grad
        local.model.load(teacher)
        with local.model.evaluating(), torch.no_grad():
            torch.testing.assert_close(said, local.model.forward(batch.x), rtol=0, atol=1e-14)


def test_the_gradient_is_of_the_mean_with_decay_and_that_elsewhere_without() -> None:
    local = begun(training={"weight_decay": 0.3})
    batch = batch_of(local)
    with local.model.evaluating():
        here = local.gradient(lambda: local.criterion(local.forward(batch.x), batch.y), batch)
        there = local.gradient_at(
            local.weights.clone(), lambda at: local.criterion(local.forward(batch.x, at), batch.y), batch
        )
    torch.testing.assert_close(here, there + 0.3 * local.weights, rtol=0, atol=1e-14)
    assert (local.forwards, local.backwards) == (14, 14)


def test_a_second_gradient_leaves_the_first_as_it_was() -> None:
    local = begun()
    batch = batch_of(local)
    first = local.gradient(lambda: local.criterion(local.forward(batch.x), batch.y), batch)
    kept = first.clone()
    local.weights.add_(0.1)
    second = local.gradient(lambda: local.criterion(local.forward(batch.x), batch.y), batch)
    assert torch.equal(first, kept)
    assert not torch.equal(second, kept)

import pytest
import torch

from eunoe.core.flat_model import Weights
from eunoe.methods.base import Method, Upload
from eunoe.server.updates import Update
from tests.helpers import make_aggregator, make_simulation


def weights(*values, float_buffers=(), int_buffers=()):
    return Weights(
        torch.tensor(values, dtype=torch.float32),
        torch.tensor(float_buffers),
        torch.tensor(int_buffers).long(),
    )


class Extra(Method):
    """Sends two numbers, combined in different ways."""

    def uploads(self, context):
        return {"a": Upload("sum", 2), "b": Upload("keep", 1)}


def sums_of(method, start, updates):
    aggregator = make_aggregator(method, start, make_simulation().context)
    for update in updates:
        assert aggregator.problem(update) is None
        aggregator.add(update)
    return aggregator.aggregate


def test_means_by_samples_and_uniform_by_hand():
    start = weights(1.0, 1.0)
    updates = [Update(0, 3, weights(2.0, 1.0), {}), Update(1, 1, weights(1.0, 5.0), {})]
    assert sums_of(Method(), start, updates).mean("change").tolist() == [0.75, 1.0]
    assert sums_of(Method(weighting="uniform"), start, updates).mean("change").tolist() == [0.5, 2.0]


def test_identical_models_merge_to_that_model_exactly():
    start, other = torch.randn(1000), torch.randn(1000)
    empty = torch.empty(0)
    model = Weights(other, empty, empty.long())
    simulation = make_simulation()
    aggregate = sums_of(
        Method(), Weights(start, empty, empty.long()), [Update(k, k + 1, model, {}) for k in range(7)]
    )
    merged = Method().aggregate({}, aggregate, simulation.context).weights
    assert torch.equal(merged.parameters, other)


def test_buffers_are_averaged_by_samples_and_counters_take_the_largest():
    start = weights(0.0, float_buffers=(1.0,), int_buffers=(3,))
    updates = [
        Update(0, 3, weights(0.0, float_buffers=(2.0,), int_buffers=(5,)), {}),
        Update(1, 1, weights(0.0, float_buffers=(4.0,), int_buffers=(9,)), {}),
    ]
    merged = sums_of(Method(weighting="uniform"), start, updates).with_mean_buffers(start.parameters)
    assert merged.float_buffers.tolist() == [2.5]
    assert merged.int_buffers.tolist() == [9]


def test_uploads_are_summed_or_kept():
    updates = [
        Update(0, 3, weights(0.0), {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([1.0])}),
        Update(1, 1, weights(0.0), {"a": torch.tensor([3.0, 4.0]), "b": torch.tensor([2.0])}),
    ]
    aggregate = sums_of(Extra(), weights(0.0), updates)
    assert aggregate.sum("a").tolist() == [4.0, 6.0]
    assert aggregate.kept("b").tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (Update(0, 1, weights(1.0, float("nan")), {}), "not finite"),
        (Update(0, 1, weights(1.0, float("inf")), {}), "not finite"),
        (Update(0, 1, weights(1.0), {}), "1 parameters, not 2"),
        (Update(0, 1, weights(1.0, 2.0, float_buffers=(1.0,)), {}), "parameters"),
        (Update(0, 0, weights(1.0, 2.0), {}, skipped="no reason"), "no reason"),
        (Update(0, 0, weights(1.0, 2.0), {}, skipped=""), ""),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_reason(update, reason):
    assert reason in make_aggregator(Method(), weights(0.0, 0.0), make_simulation().context).problem(update)


@pytest.mark.parametrize("uploads", [{}, {"a": torch.ones(3)}, {"a": torch.ones(2, 1)}])
def test_uploads_that_are_missing_or_of_another_shape_are_refused(uploads):
    aggregator = make_aggregator(Extra(), weights(0.0), make_simulation().context)
    problem = aggregator.problem(Update(0, 1, weights(1.0), {**uploads, "b": torch.tensor([1.0])}))
    assert problem == "its upload 'a' is missing or has the wrong shape"


def test_adding_an_update_leaves_its_model_as_it_was_in_float64_too():
    start = Weights(torch.tensor([1.0, 1.0]).double(), torch.empty(0), torch.empty(0).long())
    model = Weights(torch.tensor([2.0, 5.0]).double(), torch.empty(0), torch.empty(0).long())
    sums_of(Method(), start, [Update(0, 3, model, {})])
    assert model.parameters.tolist() == [2.0, 5.0]

import pytest
import torch

from eunoe.core.flat_model import Weights
from eunoe.methods.base import Method, Upload
from eunoe.training.aggregation import Sums
from eunoe.training.client import Update
from tests.helpers import make_job


def weights(*values, floats=(), integers=()):
    return Weights(
        torch.tensor(values, dtype=torch.float32), torch.tensor(floats), torch.tensor(integers).long()
    )


class Extra(Method):
    """Sends two numbers, combined in different ways."""

    def uploads(self, setting):
        return {"a": Upload("sum", 2), "b": Upload("keep", 1)}


def sums_of(method, start, updates):
    sums = Sums(method, start, make_job().setting)
    for update in updates:
        assert sums.problem(update) is None
        sums.add(update)
    return sums


def test_means_by_samples_and_uniform_by_hand():
    start = weights(1.0, 1.0)
    updates = [Update(0, 3, weights(2.0, 1.0), {}), Update(1, 1, weights(1.0, 5.0), {})]
    assert sums_of(Method(), start, updates).mean("change").tolist() == [0.75, 1.0]
    assert sums_of(Method(weighting="uniform"), start, updates).mean("change").tolist() == [0.5, 2.0]


def test_identical_models_merge_to_that_model_exactly():
    start, other = torch.randn(1000), torch.randn(1000)
    empty = torch.empty(0)
    model = Weights(other, empty, empty.long())
    job = make_job()
    sums = sums_of(
        Method(), Weights(start, empty, empty.long()), [Update(k, k + 1, model, {}) for k in range(7)]
    )
    merged = Method().merge({}, sums, job.setting).weights
    assert torch.equal(merged.parameters, other)


def test_buffers_are_averaged_by_samples_and_counters_take_the_largest():
    start = weights(0.0, floats=(1.0,), integers=(3,))
    updates = [
        Update(0, 3, weights(0.0, floats=(2.0,), integers=(5,)), {}),
        Update(1, 1, weights(0.0, floats=(4.0,), integers=(9,)), {}),
    ]
    merged = sums_of(Method(weighting="uniform"), start, updates).with_mean_buffers(start.parameters)
    assert merged.floats.tolist() == [2.5]
    assert merged.integers.tolist() == [9]


def test_uploads_are_summed_or_kept():
    updates = [
        Update(0, 3, weights(0.0), {"a": torch.tensor([1.0, 2.0]), "b": torch.tensor([1.0])}),
        Update(1, 1, weights(0.0), {"a": torch.tensor([3.0, 4.0]), "b": torch.tensor([2.0])}),
    ]
    sums = sums_of(Extra(), weights(0.0), updates)
    assert sums.sum("a").tolist() == [4.0, 6.0]
    assert sums.kept("b").tolist() == [[1.0], [2.0]]


@pytest.mark.parametrize(
    ("update", "reason"),
    [
        (Update(0, 1, weights(1.0, float("nan")), {}), "not finite"),
        (Update(0, 1, weights(1.0, float("inf")), {}), "not finite"),
        (Update(0, 1, weights(1.0), {}), "1 parameters, not 2"),
        (Update(0, 1, weights(1.0, 2.0, floats=(1.0,)), {}), "parameters"),
        (Update(0, 0, weights(1.0, 2.0), {}, skipped="no reason"), "no reason"),
        (Update(0, 0, weights(1.0, 2.0), {}, skipped=""), ""),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_reason(update, reason):
    assert reason in Sums(Method(), weights(0.0, 0.0), make_job().setting).problem(update)


@pytest.mark.parametrize("uploads", [{}, {"a": torch.ones(3)}, {"a": torch.ones(2, 1)}])
def test_uploads_that_are_missing_or_of_another_shape_are_refused(uploads):
    sums = Sums(Extra(), weights(0.0), make_job().setting)
    problem = sums.problem(Update(0, 1, weights(1.0), {**uploads, "b": torch.tensor([1.0])}))
    assert problem == "its upload 'a' is missing or has the wrong shape"


def test_adding_an_update_leaves_its_model_as_it_was_in_float64_too():
    start = Weights(torch.tensor([1.0, 1.0]).double(), torch.empty(0), torch.empty(0).long())
    model = Weights(torch.tensor([2.0, 5.0]).double(), torch.empty(0), torch.empty(0).long())
    sums_of(Method(), start, [Update(0, 3, model, {})])
    assert model.parameters.tolist() == [2.0, 5.0]

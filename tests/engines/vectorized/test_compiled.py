"""Recording of vmapped functions: what is recorded, and what is not."""

import pytest
import torch
from torch import nn

from eunoe.engines.vectorized.compiled import Compiled

X, Y = torch.arange(6.0).view(3, 2), torch.arange(6.0, 12.0).view(3, 2)


def compiled(noticed=None, module=None):
    return Compiled(module or nn.Linear(1, 1), lambda: set() if noticed is None else noticed, calls_before=1)


def counting(function):
    """The function and how often Python has run it."""
    calls = []

    def counted(*tensors):
        calls.append(1)
        return function(*tensors)

    return counted, calls


def test_after_some_calls_python_runs_no_more_and_results_stay():
    function, calls = counting(lambda x, y: (x * y).sum() + x.view(2).mul(1))
    many = compiled()
    results = [many(function, ("x", "y"), (0, 0), X + i, Y) for i in range(5)]
    assert len(calls) == 2
    for i, result in enumerate(results):
        torch.testing.assert_close(result, ((X + i) * Y).sum(1, keepdim=True) + X + i)


def test_other_shapes_names_or_dimensions_are_recorded_for_themselves():
    many, square = compiled(), torch.arange(4.0).view(2, 2)
    for _ in range(3):
        assert many(lambda x: x.sum(), ("x",), (0,), square).tolist() == [1, 5]
        assert many(lambda x: x.sum(), ("x",), (1,), square).tolist() == [2, 4]
        assert many(lambda x: x.prod(), ("y",), (0,), square).tolist() == [0, 6]
        assert many(lambda x: x.sum(), ("x",), (0,), square[:1]).tolist() == [1]


@pytest.mark.parametrize("kind", ["a tensor that is no argument", "what changes by the round"])
def test_what_may_be_different_the_next_time_is_not_recorded(kind):
    number, tensors, noticed = 0.0, [], set()

    def function(x):
        if kind == "what changes by the round":
            noticed.add("lr")
            return x + number
        return x + tensors[0]

    many = compiled(noticed)
    for i in range(4):
        number, tensors = float(i), [torch.full((2,), float(i))]
        torch.testing.assert_close(many(function, ("x",), (0,), X), X + i)


def test_the_models_own_frozen_tensors_may_be_used():
    module = nn.Linear(2, 2).requires_grad_(False)
    function, calls = counting(lambda x: module(x))
    many = compiled(module=module)
    for _ in range(4):
        torch.testing.assert_close(many(function, ("x",), (0,), X), module(X))
    assert len(calls) == 2


def test_writing_to_a_product_by_one_leaves_its_factor_alone():
    many = compiled()
    for _ in range(4):
        x = X.clone()
        assert torch.equal(many(lambda x: torch.mul(x, 1).add_(1), ("x",), (0,), x), X + 1)
        assert torch.equal(x, X)


def test_shapes_that_always_change_are_forgotten():
    many = compiled()
    for size in range(1, 200):
        assert many(lambda x: x + 1, ("x",), (0,), torch.zeros(size)).sum() == size
    assert len(many._calls) < 100

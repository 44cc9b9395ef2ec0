"""Recording of vectorized steps: what is recorded, and what is not."""

import pytest
import torch
from torch import nn

from eunoe.engines.vectorized.inputs import Common, Inputs, Own, Prepared, StackStep, StepNumbers
from eunoe.engines.vectorized.recording import Recorder
from eunoe.methods.client_context import Batch

X, Y = torch.arange(6.0).view(3, 2), torch.arange(6.0, 12.0).view(3, 2)


def inputs(clients: int = 3, **state: torch.Tensor) -> Inputs:
    number = torch.zeros(clients)
    prepared = Prepared(state, {}, {}, {}, {})
    own = Own(number, number, number, number, number, {}, (), {}, {}, {}, prepared, {})
    return Inputs(own, Common({}, {}, Prepared({}, {}, {}, {}, {})))


def step(function, weights=X, x=Y, lr=0.1, round=1, steps_taken=0, given=None):
    """A cohort's step that is a function of weights, inputs of the model, the rest and the numbers."""
    clients = len(weights)
    batch = Batch(x[:clients], torch.zeros(clients), torch.zeros(clients))
    return StackStep(
        lambda weights, batch, own, common, numbers: function(weights, batch.x, own, numbers),
        weights,
        batch,
        given or inputs(clients),
        StepNumbers(lr, round, steps_taken),
    )


def recorder(module=None):
    return Recorder(module or nn.Linear(1, 1), calls_before=1)


def counting(function):
    """The function and how often Python has run it."""
    calls = []

    def counted(*arguments):
        calls.append(1)
        return function(*arguments)

    return counted, calls


def test_after_some_calls_python_runs_no_more_and_results_stay():
    function, calls = counting(lambda w, x, own, numbers: (w * x).sum() + w.view(2).mul(1))
    many = recorder()
    results = [many(step(function, X + i)) for i in range(5)]
    assert len(calls) == 2
    for i, result in enumerate(results):
        torch.testing.assert_close(result, ((X + i) * Y).sum(1, keepdim=True) + X + i)


def test_other_shapes_and_names_are_recorded_for_themselves():
    many, square = recorder(), torch.arange(4.0).view(2, 2)
    for _ in range(3):
        assert many(step(lambda w, x, own, numbers: w.sum(), square)).tolist() == [1, 5]
        assert many(step(lambda w, x, own, numbers: w.sum(), square[:1])).tolist() == [1]
        for name, expected in (("a", [0, 6]), ("b", [1, 5])):
            reduce = torch.prod if name == "a" else torch.sum
            given = inputs(2, **{name: square})
            found = many(
                step(
                    lambda w, x, own, n, f=reduce, k=name: f(own.prepared.state[k]),
                    given=given,
                    weights=square,
                )
            )
            assert found.tolist() == expected


@pytest.mark.parametrize("number", ["lr", "round", "steps_taken"])
@pytest.mark.parametrize(
    "use",
    [
        lambda w, value: w + value,
        lambda w, value: w * min(1.0, (value + 1) / 3),
        lambda w, value: w + [0.0, 1.0, 2.0, 3.0][int(value)],
        lambda w, value: w + {0: 0.0, 1: 1.0, 2: 2.0, 3: 3.0}[value],
    ],
    ids=["arithmetic", "branch", "index", "key"],
)
def test_a_step_that_reads_what_changes_by_the_step_or_round_is_not_recorded(number, use):
    many = recorder()
    for value in (0, 1, 2, 3, 1):
        found = many(step(lambda w, x, own, numbers: use(w, getattr(numbers, number)), **{number: value}))
        torch.testing.assert_close(found, use(X, value))
    assert list(many._recorded.values()) == [None]


def test_a_step_that_reads_a_tensor_that_is_no_input_is_not_recorded():
    many, tensors = recorder(), [torch.empty(0)]
    for i in range(4):
        tensors[0] = torch.full((2,), float(i))
        torch.testing.assert_close(many(step(lambda w, x, own, numbers: w + tensors[0])), X + i)


def test_the_models_own_frozen_tensors_may_be_used():
    module = nn.Linear(2, 2).requires_grad_(False)
    function, calls = counting(lambda w, x, own, numbers: module(w))
    many = recorder(module)
    for _ in range(4):
        torch.testing.assert_close(many(step(function)), module(X))
    assert len(calls) == 2


def test_writing_to_a_product_by_one_leaves_its_factor_alone():
    many = recorder()
    for _ in range(4):
        x = X.clone()
        assert torch.equal(many(step(lambda w, x, own, numbers: torch.mul(w, 1).add_(1), x)), X + 1)
        assert torch.equal(x, X)


def test_shapes_that_always_change_are_forgotten():
    many = recorder()
    for size in range(1, 200):
        weights = torch.zeros(size)
        assert many(step(lambda w, x, own, numbers: w + 1, weights, torch.zeros(size))).sum() == size
    assert len(many._calls) < 100

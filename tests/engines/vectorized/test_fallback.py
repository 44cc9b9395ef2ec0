"""Why clients cannot be vectorized."""

import pytest
import torch
from torch import nn

from eunoe.engines.vectorized.engine import declared_reason
from eunoe.engines.vectorized.stacks import reason_of
from eunoe.errors import NotVectorizable
from tests.helpers import Net, make_simulation


class WithDropout(Net):
    def __init__(self) -> None:
        super().__init__()
        self.dropout = nn.Dropout(0.5)


def test_reasons_that_are_known_before_training() -> None:
    assert declared_reason(make_simulation()) is None
    assert declared_reason(make_simulation(net=WithDropout())) == "the model draws random numbers (dropout)"


def test_an_error_of_the_transforms_is_a_reason() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.func.vmap(lambda x: x.sum().item())(torch.ones(2, 3))
    assert str(reason_of(caught.value)).startswith("this could not be vectorized (vmap: ")
    assert reason_of(NotVectorizable("batches of unequal size")) == "batches of unequal size"


def test_the_users_own_errors_are_not() -> None:
    assert reason_of(RuntimeError("shapes do not match")) is None
    assert reason_of(ValueError("vmap")) is None

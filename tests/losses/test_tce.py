"""Truncated cross-entropy is cross-entropy among the client's own classes."""

import torch
from hypothesis import given
from torch import Tensor
from torch.nn import functional as F

from eunoe.losses.tce import TCE
from tests.losses.helpers import problems, value_and_gradient


@given(problems())
def test_other_classes_are_as_if_they_were_not_there(problem: tuple[Tensor, Tensor, Tensor]) -> None:
    logits, labels, counts = problem
    own = counts > 0
    places = own.cumsum(0) - 1
    values, _ = value_and_gradient(TCE(), logits, labels, counts)
    expected = F.cross_entropy(logits[:, own], places[labels], reduction="none")
    torch.testing.assert_close(values, expected, rtol=1e-12, atol=1e-12)

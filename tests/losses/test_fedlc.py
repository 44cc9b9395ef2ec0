"""FedLC without the true class, as the paper has it."""

import pytest
from hypothesis import given
from torch import Tensor

from eunoe.losses.fedlc import FedLC
from tests.losses.helpers import problems, value_and_gradient


@given(problems(present=3))
def test_fedlc_without_the_true_class(problem: tuple[Tensor, Tensor, Tensor]) -> None:
    logits, labels, counts = problem
    values, gradient = value_and_gradient(FedLC(exclude_true=True), logits, labels, counts)
    for row, label in enumerate(labels.tolist()):
        rivals = [c for c, n in enumerate(counts.tolist()) if n and c != label]
        scores = logits[row] - counts.pow(-0.25)
        assert values[row].item() == pytest.approx((scores[rivals].logsumexp(0) - scores[label]).item())
        assert gradient[row, label] == -1
        assert gradient[row, rivals].sum().item() == pytest.approx(1)

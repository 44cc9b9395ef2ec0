"""Cross-entropy asks nothing of the label counts but that they are counts."""

import torch
from torch.nn import functional as F

from eunoe.losses.cross_entropy import CrossEntropy
from tests.losses.helpers import value_and_gradient


def test_counts_change_nothing() -> None:
    logits, labels = torch.tensor([[0.5, -1.0, 2.0]] * 2).double(), torch.tensor([0, 2])
    expected = F.cross_entropy(logits, labels, reduction="none")
    for counts in ([1.0, 0.0, 1.0], [7.0, 1.0, 9.0]):
        values, _ = value_and_gradient(CrossEntropy(), logits, labels, torch.tensor(counts).double())
        assert torch.equal(values, expected)
    assert CrossEntropy().learns_from(torch.tensor([3.0, 0.0, 0.0]))

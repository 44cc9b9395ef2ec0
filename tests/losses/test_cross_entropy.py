"""Cross-entropy asks nothing of the label counts but that they are counts, unless it weighs classes."""

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


def test_balanced_weights_are_inverse_to_smoothed_counts() -> None:
    loss = CrossEntropy(class_weights="balanced")
    # (98 + 2 + 2) / (2 * 99) and (98 + 2 + 2) / (2 * 3).
    weights = loss.terms(torch.tensor([98.0, 2.0]).double())
    assert torch.allclose(weights, torch.tensor([102 / 198, 17.0]).double())
    # Every class with many samples has about the same weight in sum; a single class about half of two.
    counts = torch.tensor([[9000.0, 1000.0], [10000.0, 0.0]]).double()
    sums = loss.terms(counts) * counts
    assert torch.allclose(sums[0], torch.tensor([5000.0, 5000.0]).double(), rtol=2e-3)
    assert torch.allclose(sums[1], torch.tensor([5000.0, 0.0]).double(), rtol=2e-3)

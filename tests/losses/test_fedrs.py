"""FedRS's scales."""

import torch

from eunoe.losses.fedrs import FedRS


def test_graded_scale_reaches_rare_classes() -> None:
    counts = torch.tensor([2.0, 4.0, 0.0])
    assert FedRS(alpha=0.5, graded=True).terms(counts).tolist() == [0.75, 1.0, 0.5]
    assert FedRS(alpha=0.5).terms(counts).tolist() == [1.0, 1.0, 0.5]

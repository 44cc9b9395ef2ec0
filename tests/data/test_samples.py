"""Samples: one integer label for each input."""

import pytest
import torch

from eunoe.data import Samples
from eunoe.errors import InputError


def test_samples_are_counted_by_their_labels() -> None:
    assert len(Samples(torch.zeros(3, 2), torch.tensor([0, 1, 0]))) == 3


@pytest.mark.parametrize(
    ("labels", "says"),
    [
        (torch.zeros(2, dtype=torch.int64), "3 inputs have 2 labels; each input needs one"),
        (torch.zeros(3), r"must be int64 .* not torch\.float32"),
        (torch.zeros(3, 1, dtype=torch.int64), r"not torch.int64 \[3, 1\]"),
    ],
)
def test_labels_that_do_not_fit(labels: torch.Tensor, says: str) -> None:
    with pytest.raises(InputError, match=says):
        Samples(torch.zeros(3, 2), labels)

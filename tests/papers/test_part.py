"""Parts of a data set for runs at small scale."""

import torch

from eunoe.data.builtin import digits
from eunoe_papers.part import part


def test_a_part_is_a_fixed_subset_in_order() -> None:
    whole, some = digits(), part(of="digits", limit=50, test_limit=20)
    assert (len(some.train), len(some.test), some.classes) == (50, 20, 10)
    assert some.name == "digits (50 of 1,442 samples)"
    assert torch.equal(some.train.x, part(of="digits", limit=50).train.x)
    rows = [(whole.train.x == x).flatten(1).all(1).nonzero()[0, 0] for x in some.train.x]
    assert rows == sorted(rows)
    assert torch.equal(whole.train.y[torch.stack(rows)], some.train.y)


def test_without_a_limit_all_samples_are_kept() -> None:
    whole, some = digits(), part(of="digits", test_limit=10_000)
    assert torch.equal(some.train.x, whole.train.x)
    assert torch.equal(some.test.y, whole.test.y)


def test_pooling_replaces_squares_of_pixels_by_their_mean() -> None:
    whole, some = digits(), part(of="digits", limit=3, pool=2)
    assert some.train.x.shape == (3, 4, 4)
    assert some.train.x.dtype == whole.train.x.dtype
    first = part(of="digits", limit=3).train.x[0].float()
    assert float(some.train.x[0, 0, 0]) == round(float(first[:2, :2].mean()))
    assert float(some.train.x[0, 3, 1]) == round(float(first[6:8, 2:4].mean()))

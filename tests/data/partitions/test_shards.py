"""Blocks of one label: the FedCurv paper's division of MNIST, and small cases worked by hand."""

import numpy as np
import pytest

from eunoe.data.partitions.by_class import Shards, block_size
from eunoe.errors import InputError

MNIST = np.array([5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949])


def test_96_clients_of_two_blocks_on_the_labels_of_mnist() -> None:
    size = block_size(MNIST, 192)
    assert size == 306
    assert (MNIST // size).sum() == 193
    assert (MNIST // (size + 1)).sum() < 192
    labels = np.random.default_rng(0).permutation(np.repeat(np.arange(10), MNIST))
    order, offsets = Shards(clients=96, shards=2)(labels, np.random.default_rng(0))
    assert len(order) == 58_752
    assert (np.diff(offsets) == 612).all()
    blocks = labels[order].reshape(192, 306)
    assert (blocks == blocks[:, :1]).all()


def test_block_size_by_hand() -> None:
    # 7 // 3 + 5 // 3 = 3 blocks of three; of four there would be two only.
    assert block_size(np.array([7, 5]), 3) == 3
    assert block_size(np.array([7, 5]), 12) == 1
    assert block_size(np.array([7, 5]), 1) == 7


def test_more_shards_than_samples_are_refused() -> None:
    with pytest.raises(InputError, match="12 samples cannot be cut into 14 shards"):
        Shards(clients=7, shards=2)(np.repeat([0, 1], 6), np.random.default_rng(0))

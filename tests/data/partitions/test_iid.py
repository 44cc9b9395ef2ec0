"""A random division into equal parts."""

import numpy as np

from eunoe.data.partitions.without_labels import Iid


def test_iid_uses_all_samples_in_sizes_that_differ_by_one() -> None:
    order, offsets = Iid(clients=3)(np.zeros(11, np.int64), np.random.default_rng(0))
    assert sorted(order) == list(range(11))
    assert sorted(np.diff(offsets)) == [3, 4, 4]

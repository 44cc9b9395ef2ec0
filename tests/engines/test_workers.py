"""Vectors in memory shared with forked processes."""

import os

import torch

from eunoe.engines.workers import SharedVectors, layout_of

VALUES = {
    "weights": {"parameters": torch.arange(5.0), "counters": torch.tensor([7, 8])},
    "uploads": {"empty": torch.zeros(0, dtype=torch.float64), "norm": torch.ones(1, dtype=torch.float64)},
}


def test_what_is_written_is_read_and_is_a_copy() -> None:
    shared = SharedVectors(layout_of(VALUES))
    shared.write(VALUES)
    found = shared.read()
    for group, vectors in VALUES.items():
        for name, value in vectors.items():
            torch.testing.assert_close(found[group][name], value, rtol=0, atol=0)
    shared.groups["weights"]["parameters"].zero_()
    assert found["weights"]["parameters"][-1] == 4


def test_every_vector_is_aligned_as_torch_aligns() -> None:
    shared = SharedVectors(layout_of(VALUES))
    vectors = [vector for group in shared.groups.values() for vector in group.values() if len(vector)]
    assert [vector.data_ptr() % 64 for vector in vectors] == [0, 0, 0]


def test_a_forked_process_writes_to_the_same_memory() -> None:
    shared = SharedVectors(layout_of(VALUES))
    child = os.fork()
    if not child:
        shared.groups["weights"]["counters"].fill_(3)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert shared.read()["weights"]["counters"].tolist() == [3, 3]


def test_another_layout_does_not_fit() -> None:
    shared = SharedVectors(layout_of(VALUES))
    assert shared.fits(VALUES)
    assert not shared.fits({**VALUES, "uploads": {}})
    assert not shared.fits({**VALUES, "uploads": {**VALUES["uploads"], "norm": torch.ones(2)}})

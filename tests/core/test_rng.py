import itertools

import pytest
import torch

from eunoe.core.rng import generator, global_stream, torch_generator, torch_seed


def test_the_same_key_gives_the_same_numbers():
    assert generator(1, "batches", 2, 3).random() == generator(1, "batches", 2, 3).random()
    assert torch_generator(1, "x", 2, 3).initial_seed() == torch_generator(1, "x", 2, 3).initial_seed()


def test_every_part_of_the_key_counts():
    keys = list(itertools.product((0, 1), ("batches", "clients"), (0, 1, 2), (0, 1, 2)))
    assert len({generator(*key).random() for key in keys}) == len(keys)
    assert len({torch_generator(*key).initial_seed() for key in keys}) == len(keys)


def test_the_global_stream_is_that_of_its_key_and_leaves_no_trace():
    before = torch.get_rng_state()
    drawn = []
    for client in (1, 1, 2):
        with global_stream(torch.device("cpu"), 0, "model", 1, client):
            drawn.append(torch.rand(1).item())
    torch.manual_seed(torch_seed(0, "model", 1, 1))
    assert drawn[0] == drawn[1] == torch.rand(1).item()
    assert drawn[0] != drawn[2]
    torch.set_rng_state(before)
    with pytest.raises(KeyError), global_stream(torch.device("cpu"), 0, "model"):
        raise KeyError
    assert torch.equal(torch.get_rng_state(), before)

import itertools

from eunoe.randomness import generator, torch_generator


def test_the_same_key_gives_the_same_numbers():
    assert generator(1, "batches", 2, 3).random() == generator(1, "batches", 2, 3).random()
    assert torch_generator(1, "x", 2, 3).initial_seed() == torch_generator(1, "x", 2, 3).initial_seed()


def test_every_part_of_the_key_counts():
    keys = list(itertools.product((0, 1), ("batches", "clients"), (0, 1, 2), (0, 1, 2)))
    assert len({generator(*key).random() for key in keys}) == len(keys)
    assert len({torch_generator(*key).initial_seed() for key in keys}) == len(keys)

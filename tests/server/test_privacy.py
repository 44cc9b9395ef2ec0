"""Clipped sums with noise."""

import math

import numpy as np
import pytest
import torch

from eunoe.config.options import Privacy
from eunoe.core.flat_model import Weights
from eunoe.server.aggregate import Upload
from eunoe.server.privacy import PrivateAggregate, clip, seeded_normal, system_normal

START = Weights(torch.zeros(2), torch.zeros(0), torch.zeros(0, dtype=torch.int64))


def filled(clip: float, noise: float = 0.0, planned: int = 4) -> PrivateAggregate:
    """Two clients that send (3, 4 | 12), of norm 13, and (0, 1 | 0)."""
    privacy = Privacy(clip=clip, noise=noise, delta=0.01)
    aggregate = PrivateAggregate(START, {"a": Upload("sum", 1)}, privacy, planned, seeded_normal(0, 1))
    sent = (((3.0, 4.0), 12.0), ((0.0, 1.0), 0.0))
    for client, (change, upload) in enumerate(sent):
        vector = torch.tensor(change, dtype=torch.float64)
        aggregate.add(client, 10**client, START, vector, {"a": torch.tensor([upload])})
    return aggregate


def test_all_that_a_client_sends_is_clipped_together_and_clients_count_once() -> None:
    # The first client is multiplied by 6.5 / 13.
    aggregate = filled(clip=6.5)
    assert aggregate.sum("change").tolist() == [1.5, 3.0]
    assert aggregate.sum("a").tolist() == [6.0]
    assert aggregate.mean("change").tolist() == [0.375, 0.75]
    assert aggregate.mean("a").tolist() == [1.5]
    assert aggregate.count == 4
    assert aggregate.clients == [0, 1]
    assert filled(clip=13.0).sum("change").tolist() == filled(clip=math.inf).sum("change").tolist() == [3, 5]


def test_noise_is_a_multiple_of_the_clip_and_drawn_once() -> None:
    aggregate, bare = filled(clip=6.5, noise=2.0), filled(clip=6.5)
    normal = seeded_normal(0, 1)
    for name, size in (("change", 2), ("a", 1)):
        expected = bare.sum(name) + 13.0 * normal(size)
        assert torch.equal(aggregate.sum(name), expected)
        assert torch.equal(aggregate.sum(name), expected)
        assert torch.equal(aggregate.mean(name), expected / 4)
    assert not torch.equal(seeded_normal(0, 2)(3), seeded_normal(0, 1)(3))


def test_with_every_client_dropped_only_the_noise_is_left() -> None:
    privacy = Privacy(clip=1.0, noise=3.0, delta=0.01)
    aggregate = PrivateAggregate(START, {}, privacy, 2, seeded_normal(5, 9))
    assert torch.equal(aggregate.sum("change"), 3.0 * seeded_normal(5, 9)(2))


def test_replacing_a_client_moves_the_sum_by_at_most_twice_the_clip() -> None:
    rng = np.random.default_rng(0)
    for _ in range(50):
        one, other = (torch.from_numpy(rng.normal(size=5) * 10 ** rng.uniform(-3, 6)) for _ in range(2))
        ours, theirs = (clip({"all": value}, 0.7)["all"] for value in (one, other))
        assert float(torch.linalg.vector_norm(ours - theirs)) <= 2 * 0.7 * (1 + 1e-12)


def test_the_systems_numbers_are_standard_normal_and_never_the_same() -> None:
    first, second = system_normal(40_000), system_normal(40_000)
    assert first.dtype == torch.float64
    assert not torch.equal(first, second)
    for numbers in (first, second):
        assert abs(float(numbers.mean())) < 0.03
        assert abs(float(numbers.std()) - 1) < 0.02
        # The share beyond two deviations is 4.55%.
        assert float((numbers.abs() > 2).double().mean()) == pytest.approx(0.0455, abs=0.006)

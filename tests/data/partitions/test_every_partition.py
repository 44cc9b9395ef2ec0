"""What holds for every partition: rows with one owner, sizes, determinism, bounded failures."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe.config import registry
from eunoe.errors import InputError

# Options under which a partition can serve any labels that leave ten samples a client.
OPTIONS: dict[str, dict[str, Any]] = {
    "classes": {"classes": 1},
    "dirichlet": {},
    "dirichlet_by_class": {"alpha": 10.0, "min_size": 1},
    "iid": {},
    "natural": {},
    "quantity": {},
    "shards": {},
}
CONCENTRATED = ("dirichlet", "dirichlet_by_class", "quantity")
EXTREMES = (1e-12, 0.01, 0.1, 1.0, 1e6)


def build(name: str, clients: int, **more: Any) -> Any:
    return registry.build("partition", name, {"clients": clients, **OPTIONS[name], **more})


def check(order: np.ndarray, offsets: np.ndarray, samples: int, clients: int) -> None:
    assert order.dtype == offsets.dtype == np.int64
    assert offsets[0] == 0
    assert offsets[-1] == len(order)
    assert len(offsets) == clients + 1
    assert (np.diff(offsets) >= 1).all()
    assert len(np.unique(order)) == len(order)
    assert order.min() >= 0
    assert order.max() < samples


@st.composite
def settings(draw: st.DrawFn) -> tuple[np.ndarray, int, int]:
    clients = draw(st.integers(1, 12))
    classes = draw(st.integers(1, 6))
    samples = clients * 10 + draw(st.integers(0, 60))
    labels = draw(st.lists(st.integers(0, classes - 1), min_size=samples, max_size=samples))
    return np.array(labels, np.int64), clients, draw(st.integers(0, 2**32))


@pytest.mark.parametrize("name", OPTIONS)
@given(settings())
def test_each_row_has_one_owner_and_the_generator_decides_all(
    name: str, setting: tuple[np.ndarray, int, int]
) -> None:
    labels, clients, seed = setting
    partition = build(name, clients)
    groups = np.arange(len(labels)) % clients
    order, offsets = partition(labels, np.random.default_rng(seed), groups)
    check(order, offsets, len(labels), clients)
    again = partition(labels, np.random.default_rng(seed), groups)
    np.testing.assert_array_equal(order, again[0])
    np.testing.assert_array_equal(offsets, again[1])


@pytest.mark.parametrize("name", CONCENTRATED)
@pytest.mark.parametrize("alpha", EXTREMES)
def test_extreme_concentrations_end_with_whole_numbers(name: str, alpha: float) -> None:
    labels = np.repeat(np.arange(10), 300)
    for seed in range(5):
        generator, partition = np.random.default_rng(seed), build(name, 100, alpha=alpha)
        if name == "dirichlet_by_class" and alpha < 0.1:
            # It draws again until all clients are large enough, and gives up.
            with pytest.raises(InputError, match="raise alpha"):
                partition(labels, generator)
        else:
            check(*partition(labels, generator), 3000, 100)


@pytest.mark.parametrize("name", OPTIONS)
def test_another_generator_gives_another_partition(name: str) -> None:
    labels = np.repeat(np.arange(10), 100)
    groups = np.arange(1000) // 50
    orders = [build(name, 10)(labels, np.random.default_rng(seed), groups)[0] for seed in (0, 1)]
    assert not np.array_equal(*orders)


@pytest.mark.parametrize("name", OPTIONS)
def test_more_clients_than_samples_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="samples"):
        build(name, 11)(np.arange(10) % 2, np.random.default_rng(0))


@pytest.mark.parametrize("name", OPTIONS)
def test_only_partitions_that_do_not_look_at_labels_divide_other_targets(name: str) -> None:
    divide, groups = build(name, 2), np.arange(10) % 2
    if name in ("iid", "natural", "quantity"):
        order, offsets = divide(np.zeros((10, 3)), np.random.default_rng(0), groups)
        assert sorted(order) == list(range(10))
        assert len(offsets) == 3
        return
    with pytest.raises(InputError, match=r"divides by class.* use partition 'natural'"):
        divide(np.zeros(10), np.random.default_rng(0), groups)


@pytest.mark.parametrize("name", CONCENTRATED)
@pytest.mark.parametrize("alpha", [0.0, -1.0, float("nan"), float("inf")])
def test_a_concentration_that_is_no_positive_number_is_refused(name: str, alpha: float) -> None:
    with pytest.raises(InputError, match="alpha"):
        build(name, 2, alpha=alpha)


def test_every_built_in_partition_is_tested_here() -> None:
    assert set(registry.names("partition")) == set(OPTIONS)


@pytest.mark.parametrize("name", OPTIONS)
def test_no_clients_are_refused(name: str) -> None:
    # With 0, natural keeps all groups.
    for clients in (-1,) if name == "natural" else (-1, 0):
        with pytest.raises(InputError, match="clients"):
            build(name, clients)

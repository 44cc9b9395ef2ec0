"""Merges by hand, against Flower's functions, and where they are refused."""

from typing import Any

import numpy as np
import pytest
import torch

from eunoe.config import registry
from eunoe.errors import InputError
from eunoe.server.aggregate import Aggregate, Upload
from eunoe.server.robust import Aggregation, krum_scores, near_copies
from tests.helpers import blobs, make_simulation
from tests.server.test_aggregate import weights

# Four clients near (1, 1), and one that is far from all.
ROWS = torch.tensor([[1.0, 1.0], [1.0, 2.0], [2.0, 1.0], [0.0, 1.0], [-90.0, 120.0]], dtype=torch.float64)
SIZES = torch.tensor([1.0, 2.0, 1.0, 3.0, 9.0], dtype=torch.float64)


def made(name: str, **options: Any) -> Aggregation:
    aggregation = registry.build("aggregation", name, options)
    assert isinstance(aggregation, Aggregation)
    return aggregation


@pytest.mark.parametrize(
    ("aggregation", "expected"),
    [
        (made("mean"), [(1 + 2 + 2 - 810) / 16, (1 + 4 + 1 + 3 + 1080) / 16]),
        (made("median"), [1.0, 1.0]),
        (made("trimmed_mean", share=0.2), [2 / 3, 4 / 3]),
        # Squared distances to the two nearest others: 1 + 1, 1 + 2, 1 + 2, 1 + 2, and the far one's.
        (made("krum", bad=1), [1.0, 1.0]),
        (made("multi_krum", bad=1, keep=2), [1.0, (1 + 4) / 3]),
    ],
)
def test_five_clients_by_hand(aggregation: Aggregation, expected: list[float]) -> None:
    found = aggregation.combine([ROWS], ROWS, SIZES)
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


def test_an_even_number_has_the_mean_of_the_middle_two_as_its_median() -> None:
    assert made("median").combine([ROWS[:4]], ROWS[:4], SIZES[:4]).tolist() == [1.0, 1.0]
    rows = torch.tensor([[1.0], [2.0], [4.0], [100.0]]).double()
    assert made("median").combine([rows], rows, torch.ones(4).double()).tolist() == [3.0]


def test_norms_are_clipped_to_a_multiple_of_their_median() -> None:
    rows = torch.tensor([[3.0, 4.0], [0.0, 10.0], [0.0, 1.0]], dtype=torch.float64)
    ones = torch.ones(3).double()
    # Norms 5, 10 and 1: 10 is clipped to 5.
    assert made("norm_clip").combine([rows], rows, ones).tolist() == pytest.approx([1.0, (4 + 5 + 1) / 3])
    assert made("norm_clip", factor=2.0).combine([rows], rows, ones).tolist() == pytest.approx([1.0, 5.0])


def test_the_geometric_median_has_a_smaller_sum_of_distances_than_points_around_it() -> None:
    rows = torch.randn(7, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    # The median of each coordinate is one of the rows and not the answer.
    rows[0] = rows[1:].median(0).values
    point = made("geometric_median", iterations=1000).combine([rows], rows, torch.ones(7).double())

    def total(at: torch.Tensor) -> float:
        return float(torch.linalg.vector_norm(rows - at, dim=1).sum())

    for shift in torch.eye(3, dtype=torch.float64) * 1e-3:
        assert total(point) < min(total(point + shift), total(point - shift))


@pytest.mark.parametrize("clients", [5, 8])
@pytest.mark.parametrize("seed", [0, 1])
def test_flower_gives_the_same(clients: int, seed: int) -> None:
    aggregate = pytest.importorskip("flwr.server.strategy.aggregate")
    rng = np.random.default_rng(seed)
    layers = [[rng.normal(size=(4, 3)), rng.normal(size=5)] for _ in range(clients)]
    sizes = rng.integers(1, 50, clients)
    results = [(one, int(size)) for one, size in zip(layers, sizes, strict=True)]
    rows = torch.from_numpy(np.stack([np.concatenate([part.ravel() for part in one]) for one in layers]))
    weighted = torch.from_numpy(sizes).double()
    for aggregation, theirs in (
        (made("mean"), aggregate.aggregate(results)),
        (made("median"), aggregate.aggregate_median(results)),
        (made("trimmed_mean", share=0.25), aggregate.aggregate_trimmed_avg(results, 0.25)),
        (made("krum", bad=1), aggregate.aggregate_krum(results, 1, 0)),
        (made("multi_krum", bad=1, keep=3), aggregate.aggregate_krum(results, 1, 3)),
    ):
        flat = np.concatenate([part.ravel() for part in theirs])
        assert aggregation.combine([rows], rows, weighted).numpy() == pytest.approx(flat, abs=1e-12), (
            aggregation
        )


def test_scores_of_krum_are_sums_of_squared_distances_to_the_nearest() -> None:
    rows = torch.tensor([[0.0], [1.0], [3.0], [10.0], [11.0]], dtype=torch.float64)
    assert krum_scores([rows], 1).tolist() == [1 + 9, 1 + 4, 4 + 9, 1 + 49, 1 + 64]


def test_krum_sees_a_poisoned_second_vector() -> None:
    rng = torch.Generator().manual_seed(0)
    changes = torch.randn(8, 50, dtype=torch.float64, generator=rng)
    changes[3] /= 10
    # Much larger than the changes, and of the client that is best by its change.
    buffers = 1000 * torch.randn(8, 5, dtype=torch.float64, generator=rng)
    assert int(krum_scores([changes], 1).argmin()) == 3
    poisoned = buffers.clone()
    poisoned[3] += 1e5
    assert int(krum_scores([changes, poisoned], 1).argmax()) == 3
    # A poisoned change does not hide behind the larger scale of buffers.
    changes[5] *= 10
    assert int(krum_scores([changes, buffers], 1).argmax()) == 5
    # Where all others agree, one that differs is last.
    equal = torch.ones(8, 5, dtype=torch.float64)
    equal[2] += 1e-3
    assert int(krum_scores([changes, equal], 1).argmax()) == 2


def test_near_copies_are_named_and_honest_updates_are_not() -> None:
    rows = torch.randn(10, 50, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert near_copies(rows) == []
    assert near_copies(torch.ones(4, 3).double()) == []
    assert near_copies(rows[:1]) == []
    rows[7] = rows[4] = rows[1] + 1e-6
    assert near_copies(rows) == [1, 4, 7]


def filled(aggregation: Aggregation) -> Aggregate:
    start = weights(0.0, 0.0, buffers=(1.0,), counters=(0,))
    aggregate = Aggregate(
        start, uploads={"c": Upload("sum", 1), "n": Upload("uniform", 1)}, aggregation=aggregation
    )
    for client, (row, buffer) in enumerate(zip(ROWS, (2.0, 2.0, 3.0, 5.0, 999.0), strict=True)):
        model = weights(*row.tolist(), buffers=(buffer,), counters=(1,))
        uploads = {"c": torch.tensor([float(client)]), "n": torch.tensor([float(client)])}
        aggregate.add(client, 1, model, row, uploads)
    return aggregate


def test_an_aggregate_combines_changes_buffers_and_sums() -> None:
    aggregate = filled(made("median"))
    assert aggregate.mean("change").tolist() == [1.0, 1.0]
    assert aggregate.with_mean_buffers(torch.zeros(2)).float_buffers.tolist() == [3.0]
    assert aggregate.sum("c").tolist() == [2.0 * 5]
    # Its range is checked instead.
    assert aggregate.mean("n").tolist() == [2.0]


def test_krum_takes_all_vectors_of_one_client() -> None:
    aggregate = filled(made("krum", bad=1))
    # Scores of client 0 and 1: changes 2 and 3 (median 3), buffers 1 and 1 (2), sums 1 + 4 and 1 + 1 (2).
    # In these units 2/3 + 1/2 + 5/2 and 1 + 1/2 + 1.
    assert aggregate.mean("change").tolist() == ROWS[1].tolist()
    assert aggregate.with_mean_buffers(torch.zeros(2)).float_buffers.tolist() == [2.0]
    assert aggregate.sum("c").tolist() == [1.0 * 5]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"aggregation": {"name": "krum", "bad": 2}}, "requires 7 clients per round, and 5 take part"),
        ({"aggregation": {"name": "multi_krum", "keep": 5}}, "is too large: set at most 4"),
        ({"aggregation": {"name": "trimmed_mean", "share": 0.1}}, "trims no client: set at least 0.2"),
        ({"aggregation": "median", "method": "fedcurv"}, "whose uploads it cannot protect"),
        ({"aggregation": "median", "method": "labelwise"}, "whose uploads it cannot protect"),
        ({"aggregation": "median", "method": "gma"}, "further means that the optimizer needs"),
        ({"aggregation": "median", "method": "fedexp"}, "further means that the optimizer needs"),
        ({"aggregation": "medan"}, "did you mean 'median'?"),
    ],
)
def test_combinations_without_protection_are_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message.replace("?", r"\?")):
        make_simulation(blobs(clients=5), participation=5, **values)


@pytest.mark.parametrize(
    "method", ["fedavg", "fedprox", "fednova", "scaffold", "feddyn", "fedcm", "fedacg", "fedadam"]
)
def test_methods_of_the_mean_change_take_any_aggregation(method: str) -> None:
    for aggregation in registry.names("aggregation"):
        simulation = make_simulation(
            blobs(clients=5), participation=5, method=method, aggregation=aggregation
        )
        assert simulation.context.aggregation == registry.build("aggregation", aggregation, {})

"""GradMA: projections by hand, steps of clients and the memory of the server."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from eunoe.errors import InputError
from eunoe.methods.fedavg import FedAvg
from eunoe.methods.gradma import GradMA, project
from tests.methods.helpers import Normed, Trial, random_parts, softmax_gradient

PARTS = random_parts([7, 12, 5, 9], 3, 4)
WHOLE = {"steps": 3, "lr": 0.5, "batch_size": 0}


def vector(*numbers: float) -> Tensor:
    return torch.tensor(numbers, dtype=torch.float64)


@pytest.mark.parametrize(
    ("memory", "expected"),
    [
        ([[0, 1]], (1, 0)),
        ([[0, -2]], (1, -1)),
        ([[-1, 0], [0, 5]], (0, 0)),
        # The half planes below the diagonal and to the left: the corner is nearest.
        ([[1, -1], [-1, 0]], (0, -1)),
        # Rows of zeros and parallel rows.
        ([[0, 0], [0, 1], [0, 3]], (1, 0)),
        ([[1, 1], [-1, 1]], (0, 0)),
    ],
)
def test_projections_by_hand(memory: list[list[float]], expected: tuple[float, float]) -> None:
    found = project(vector(1, -1), torch.tensor(memory, dtype=torch.float64))
    assert found.tolist() == pytest.approx(expected, abs=1e-12)


def test_a_projection_is_the_nearest_vector_that_is_allowed() -> None:
    rng = torch.Generator().manual_seed(0)
    for _ in range(50):
        memory = torch.randn(6, 9, generator=rng, dtype=torch.float64)
        before = torch.randn(9, generator=rng, dtype=torch.float64)
        found = project(before, memory)
        # It satisfies the constraints and is orthogonal to what was added, a sum of rows of the memory.
        assert bool((memory @ found > -1e-12).all())
        assert abs(float((found - before) @ found)) < 1e-12


def test_steps_of_a_client_by_hand(tmp_path: Path) -> None:
    method = GradMA(server=False)
    trial = Trial(tmp_path, PARTS, method, classes=4, training={**WHOLE, "weight_decay": 0.1})
    start = before = here = torch.zeros(12, dtype=torch.float64)
    changed = 0
    for _ in range(3):
        own = softmax_gradient(here, *PARTS[0]) + 0.1 * here
        memory = [softmax_gradient(before, *PARTS[0]), softmax_gradient(start, *PARTS[0]), here - start]
        step = project(own, torch.stack(memory))
        changed += not torch.allclose(step, own)
        before, here = here, here - 0.5 * step
    # Going on in the same direction leads further away, which the last constraint forbids.
    assert changed == 2
    torch.testing.assert_close(trial.client(0)[0].weights.parameters, here, rtol=0, atol=1e-12)


def test_rounds_of_the_server_by_hand(tmp_path: Path) -> None:
    method = GradMA(worker=False, beta1=0.5, beta2=0.2)
    trial = Trial(tmp_path, PARTS, method, classes=4, training=WHOLE)
    sizes = vector(7, 12, 5, 9) / 33
    momentum, rows = torch.zeros(12, dtype=torch.float64), torch.zeros(4, 12, dtype=torch.float64)
    for _ in range(3):
        start = trial.parameters
        moves = torch.stack([start - trial.client(k)[0].weights.parameters for k in range(4)])
        rows = 0.2 * rows + moves
        momentum = project(0.5 * momentum + sizes @ moves, rows)
        trial.rounds()
        torch.testing.assert_close(trial.parameters, start - momentum, rtol=0, atol=1e-12)
        assert bool((rows @ (start - trial.parameters) > -1e-12).all())


def test_the_client_that_took_part_least_leaves_the_memory(tmp_path: Path) -> None:
    values = {"participation": 2, "seed": 3, "classes": 4, "training": WHOLE}
    trial = Trial(tmp_path, PARTS, GradMA(memory=3, beta2=1.0), **values)
    times: dict[int, int] = {}
    left = 0
    for _ in range(8):
        chosen = trial.rounds().record["clients"]
        for client in chosen:
            times[client] = times.get(client, 0) + 1
        while len(times) > 3:
            del times[min((count, k) for k, count in times.items() if k not in chosen)[1]]
            left += 1
        kept = {name: trial.server[name].tolist() for name in ("clients", "times")}
        assert dict(zip(kept["clients"], kept["times"], strict=True)) == times
        assert trial.server["memory"].shape == (3 if len(times) == 3 else 2, 12)
    assert left


def test_a_memory_smaller_than_a_round_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must hold a round's clients: set it to 4"):
        Trial(tmp_path, PARTS, GradMA(memory=3), classes=4)
    Trial(tmp_path, PARTS, GradMA(memory=3, server=False), classes=4)


def test_statistics_are_updated_once_a_step_and_passes_count(tmp_path: Path) -> None:
    updates = []
    for method in (GradMA(), FedAvg()):
        torch.manual_seed(0)
        trial = Trial(tmp_path, PARTS, method, model=Normed(), classes=4, training={**WHOLE, "steps": 1})
        updates.append(trial.client(0)[0])
    mine, plain = updates
    assert torch.equal(mine.weights.float_buffers, plain.weights.float_buffers)
    assert mine.weights.int_buffers.tolist() == [1]
    assert mine.backwards == 3 * plain.backwards

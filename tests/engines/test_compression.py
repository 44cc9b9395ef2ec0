"""What a client sends of its change, and what it keeps for the next time."""

import numpy as np
import torch

from eunoe.config.options import Compression
from eunoe.core.flat_model import Weights
from eunoe.engines.compression import compress, compressed_uploads, upload_bytes
from eunoe.server.aggregate import Upload
from eunoe.server.updates import Broadcast, Update
from tests.helpers import begin, make_simulation

HALF = Compression(name="topk", share=0.5)
UPLOADS = {"sums": Upload("sum", 2), "count": Upload("sum", 2, lowest=0.0), "few": Upload("sum", 1)}


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


def make_update(parameters: torch.Tensor, uploads: dict[str, torch.Tensor]) -> Update:
    return Update(0, 1, Weights(parameters, torch.empty(0), torch.empty(0)), uploads)


def test_what_was_not_sent_is_added_to_the_next_change() -> None:
    start, uploads = torch.tensor([1.0, 1.0]), {"sums": torch.tensor([0.0, -4.0]), "few": torch.ones(1)}
    trained = make_update(torch.tensor([3.0, 2.0]), uploads)
    first, residuals = compress(HALF, trained, start, ["sums"], {}, rng())
    assert first.weights.parameters.tolist() == [3.0, 1.0]
    assert first.uploads["sums"].tolist() == [0.0, -4.0]
    assert first.uploads["few"].tolist() == [1.0]
    assert [value.tolist() for value in residuals.values()] == [[0.0, 1.0], [0.0, 0.0]]
    # A change of (1.5, 1) is now one of (1.5, 2), of which the second goes.
    trained = make_update(torch.tensor([2.5, 2.0]), uploads)
    second, residuals = compress(HALF, trained, start, ["sums"], residuals, rng())
    assert second.weights.parameters.tolist() == [1.0, 3.0]
    assert next(iter(residuals.values())).tolist() == [1.5, 0.0]


def test_a_method_sees_only_the_state_that_it_declares() -> None:
    simulation = make_simulation(method="scaffold")
    own = {"control": simulation.model.parameters.clone()}
    state = {"not sent of change": torch.ones(3), "private parameters": torch.ones(2), **own}
    context, _ = begin(simulation, 0, Broadcast(1, simulation.model.weights.copy(), own), state)
    assert dict(context.state) == own


def test_without_feedback_nothing_is_kept_and_all_is_identity() -> None:
    start, moved = torch.zeros(3), torch.tensor([3.0, 2.0, 1e-30])
    plain = Compression(name="topk", share=0.5, feedback=False)
    update = make_update(moved, {})
    assert compress(plain, update, start, [], {}, rng())[1] == {}
    whole, residuals = compress(Compression(name="topk", share=1.0), update, start, [], {}, rng())
    assert whole.weights.parameters is moved
    assert whole.packed == residuals == {}


def test_only_sums_as_long_as_the_model_are_compressed() -> None:
    assert compressed_uploads(HALF, UPLOADS, 2) == ["sums"]
    assert compressed_uploads(None, UPLOADS, 2) == []
    sparse = {"sums": Upload("sum", 2, entries=1), "kept": Upload("keep", 2)}
    assert compressed_uploads(HALF, sparse, 2) == []


def test_bytes_are_those_of_the_parts() -> None:
    context = make_simulation().context
    size = context.model.parameters
    uploads = {"sums": Upload("sum", size), "few": Upload("sum", 3), "sparse": Upload("sum", size, entries=5)}
    uploads["too"] = Upload("sum", size, entries=5, indices_of="sparse")
    entries = -(-size // 2)
    assert upload_bytes(HALF, uploads, context) == 2 * 8 * entries + 12 + 5 * 8 + 5 * 4
    assert upload_bytes(None, uploads, context) == 2 * 4 * size + 12 + 5 * 8 + 5 * 4

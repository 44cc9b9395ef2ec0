"""The running sums of a round's updates."""

import torch

from eunoe.core.flat_model import Weights
from eunoe.server.aggregate import Aggregate, Upload


def weights(*parameters: float, buffers: tuple[float, ...] = (), counters: tuple[int, ...] = ()) -> Weights:
    return Weights(torch.tensor(parameters), torch.tensor(buffers), torch.tensor(counters, dtype=torch.int64))


def filled(**options: object) -> Aggregate:
    """Two clients, of 3 samples and of 1, whose changes are (1, 0) and (0, 4)."""
    aggregate = Aggregate(weights(1.0, 1.0, buffers=(2.0,), counters=(5,)), **options)  # type: ignore[arg-type]
    uploads = [{"a": torch.tensor([1.0])}, {"a": torch.tensor([5.0])}]
    models = [
        weights(2.0, 1.0, buffers=(4.0,), counters=(7,)),
        weights(1.0, 5.0, buffers=(8.0,), counters=(6,)),
    ]
    for client, (size, model, own) in enumerate(zip((3, 1), models, uploads, strict=True)):
        change = model.parameters.double() - 1
        aggregate.add(10 + client, size, model, change, own)
    return aggregate


def test_means_are_by_samples_or_uniform() -> None:
    assert filled().mean("change").tolist() == [0.75, 1.0]
    assert filled(weighting="uniform").mean("change").tolist() == [0.5, 2.0]
    assert filled().clients == [10, 11]
    assert filled().mean("change").dtype == torch.float64


def test_uploads_are_combined_as_they_say() -> None:
    for combine, expected in (("samples", 2.0), ("uniform", 3.0)):
        assert filled(uploads={"a": Upload(combine, 1)}).mean("a").tolist() == [expected]
    assert filled(uploads={"a": Upload("sum", 1)}).sum("a").tolist() == [6.0]
    assert filled(uploads={"a": Upload("keep", 1)}).kept("a").tolist() == [[1.0], [5.0]]


def test_derived_functions_have_means_of_their_own() -> None:
    assert filled(derived={"signs": torch.sign}).mean("signs").tolist() == [0.75, 0.25]


def test_buffers_are_averaged_by_samples_and_counters_are_the_largest() -> None:
    # (3 * 4 + 8) / 4, whatever weighs the parameters.
    merged = filled(weighting="uniform").with_mean_buffers(torch.zeros(2))
    assert merged.float_buffers.tolist() == [5.0]
    assert merged.int_buffers.tolist() == [7]
    assert merged.parameters.tolist() == [0.0, 0.0]


def test_models_are_kept_only_on_request() -> None:
    assert filled().models == []
    assert [model.parameters.tolist() for model in filled(keep_models=True).models] == [
        [2.0, 1.0],
        [1.0, 5.0],
    ]

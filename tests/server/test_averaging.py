"""The mean of global models, by numbers worked by hand."""

import pytest
import torch
from torch import nn

from eunoe.config.options import Averaging
from eunoe.core.flat_model import Vectors, Weights
from eunoe.errors import InputError
from eunoe.server.averaging import ModelAverage, average_model, update_average


def model(value: float, buffer: float = 0.0, counter: int = 0, dtype: torch.dtype = torch.float32) -> Weights:
    return Weights(
        torch.tensor([value], dtype=dtype), torch.tensor([buffer], dtype=dtype), torch.tensor([counter])
    )


def after(averaging: Averaging, models: list[Weights]) -> tuple[Vectors, Weights]:
    state: Vectors = {}
    for newest in models:
        state = update_average(averaging, state, newest)
    return state, average_model(averaging, state, models[-1])


MODELS = [model(8.0, 1.0, 1), model(2.0, 4.0, 2), model(4.0, 4.0, 3)]


@pytest.mark.parametrize(
    ("averaging", "parameters", "buffers"),
    [
        # m is 4, 3, 3.5 (and 0.5, 2.25, 3.125), divided by 7/8.
        (Averaging(decay=0.5), 4.0, 25 / 7),
        (Averaging(decay=0.0), 4.0, 4.0),
        (Averaging(last=1), 4.0, 4.0),
        (Averaging(last=2), 3.0, 4.0),
        (Averaging(last=5), 14 / 3, 3.0),
    ],
)
def test_parameters_and_float_buffers_are_averaged_and_counters_are_the_newest(
    averaging: Averaging, parameters: float, buffers: float
) -> None:
    _, mean = after(averaging, MODELS)
    assert mean.parameters.item() == pytest.approx(parameters, rel=1e-7)
    assert mean.float_buffers.item() == pytest.approx(buffers, rel=1e-7)
    assert mean.int_buffers.tolist() == [3]
    assert mean.parameters.dtype == mean.float_buffers.dtype == torch.float32


def test_the_average_of_a_loop_by_hand() -> None:
    model = nn.Sequential(nn.Linear(1, 1), nn.BatchNorm1d(1))
    average = ModelAverage(model, decay=0.5)
    for count, value in enumerate((8.0, 2.0, 4.0), start=1):
        with torch.no_grad():
            model[0].weight.fill_(value)
            model[1].running_mean.fill_(-value)
            model[1].num_batches_tracked.fill_(count)
        assert average.update(model) is average.model
    # (8 + 2 * 2 + 4 * 4) / 7
    assert average.model[0].weight.item() == pytest.approx(4.0)
    assert average.model[1].running_mean.item() == pytest.approx(-4.0)
    assert average.model[1].num_batches_tracked.item() == 3
    assert model[0].weight.item() == 4.0
    assert model.training
    assert not average.model.training
    assert not any(parameter.requires_grad for parameter in average.model.parameters())
    with pytest.raises(InputError, match="decay: input should be less than 1"):
        ModelAverage(model, decay=1.0)


def test_the_bias_of_the_start_is_corrected() -> None:
    for models in (1, 2, 9):
        _, mean = after(Averaging(decay=0.9), [model(3.0, 5.0)] * models)
        assert (mean.parameters.item(), mean.float_buffers.item()) == (3.0, 5.0)


@pytest.mark.parametrize("averaging", [Averaging(decay=0.0), Averaging(last=1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_of_one_model_the_mean_has_the_same_bits(averaging: Averaging, dtype: torch.dtype) -> None:
    models = [model(value, -value, dtype=dtype) for value in (0.1, 1e-40, 3e38, -0.0)]
    for count in range(1, 5):
        _, mean = after(averaging, models[:count])
        for found, wanted in zip(mean.vectors().values(), models[count - 1].vectors().values(), strict=True):
            assert found.numpy().tobytes() == wanted.numpy().tobytes()


def test_what_is_kept_is_one_model_in_float64_or_the_last_ones_as_they_are() -> None:
    state, _ = after(Averaging(decay=0.9), MODELS)
    assert {name: (v.dtype, v.numel()) for name, v in state.items()} == {
        "parameters": (torch.float64, 1), "float_buffers": (torch.float64, 1), "models": (torch.int64, 1),
    }  # fmt: skip
    state, _ = after(Averaging(last=2), MODELS)
    assert state["parameters"].tolist() == [[2.0], [4.0]]
    assert state["parameters"].dtype == torch.float32


def test_a_mean_of_many_is_computed_in_float64() -> None:
    # In float32 adding 1e-3 to 1e6 four thousand times would lose most of it.
    _, mean = after(Averaging(last=4001), [model(1e6), *[model(1e-3)] * 4000])
    assert mean.parameters.item() == pytest.approx((1e6 + 4) / 4001, rel=1e-7)


def test_nothing_is_averaged_where_it_is_off_or_no_round_was_done() -> None:
    newest = model(1.0)
    assert average_model(None, {}, newest) is newest
    assert average_model(Averaging(decay=0.5), {}, newest) is newest

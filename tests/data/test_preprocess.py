"""From stored samples to model inputs: scaled, normalized, channels first, in the model's type."""

from typing import Any

import pytest
import torch
from torch import Tensor

from eunoe.data.preprocess import Preprocess
from eunoe.data.samples import DataSet, Samples
from eunoe.errors import InputError


def of(x: Tensor, dtype: torch.dtype = torch.float32, **facts: Any) -> Preprocess:
    samples = Samples(x, torch.zeros(len(x), dtype=torch.int64))
    return Preprocess(DataSet("some", samples, samples, 2, **facts), dtype)


def test_gray_images_get_a_channel_and_are_normalized() -> None:
    x = torch.tensor([[[0, 255], [51, 102]]], dtype=torch.uint8)
    seen = of(x, torch.float64, mean=(0.2,), std=(0.5,))(x)
    assert seen.shape == (1, 1, 2, 2)
    assert torch.allclose(seen[0, 0], torch.tensor([[-0.4, 1.6], [0.0, 0.4]], dtype=torch.float64))


def test_color_images_have_their_channels_first_and_normalized_one_by_one() -> None:
    x = torch.randint(0, 256, (5, 4, 6, 3), dtype=torch.uint8)
    mean, std = (0.1, 0.2, 0.3), (0.5, 0.25, 0.125)
    seen = of(x, mean=mean, std=std)(x)
    assert seen.shape == (5, 3, 4, 6)
    for channel in range(3):
        by_hand = (x[..., channel].double() / 255 - mean[channel]) / std[channel]
        assert torch.allclose(seen[:, channel].double(), by_hand, atol=1e-5)


def test_bytes_without_a_mean_are_scaled() -> None:
    x = torch.tensor([[0, 255]], dtype=torch.uint8)
    assert of(x)(x).tolist() == [[0.0, 1.0]]


def test_floats_are_taken_as_they_are_unless_a_mean_is_given() -> None:
    x = torch.tensor([[1.0, -7.0]], dtype=torch.float64)
    assert of(x)(x).dtype == torch.float32
    assert of(x)(x).tolist() == [[1.0, -7.0]]
    assert of(x, mean=(1.0, -3.0), std=(2.0, 4.0))(x).tolist() == [[0.0, -1.0]]
    assert of(x, mean=(1.0,), std=(2.0,))(x).tolist() == [[0.0, -4.0]]


def test_other_integers_stay_integers() -> None:
    x = torch.tensor([[3, 70_000]], dtype=torch.int32)
    seen = of(x, torch.float64)(x)
    assert seen.dtype == torch.int64
    assert seen.tolist() == [[3, 70_000]]


def test_black_is_what_a_black_pixel_becomes() -> None:
    x = torch.zeros((1, 2, 2, 3), dtype=torch.uint8)
    prepare = of(x, mean=(0.1, 0.2, 0.3), std=(0.5, 0.5, 0.5))
    assert prepare.black is not None
    assert torch.equal(prepare.black.expand(1, 3, 2, 2), prepare(x))
    assert of(torch.zeros(1, 2)).black is None


@pytest.mark.parametrize(
    ("x", "facts", "says"),
    [
        (
            torch.zeros((1, 2, 2, 3), dtype=torch.uint8),
            {"mean": (0.1, 0.2), "std": (1.0, 1.0)},
            "1 or 3 numbers",
        ),
        (
            torch.zeros((1, 2, 2), dtype=torch.uint8),
            {"mean": (0.1, 0.2), "std": (1.0, 1.0)},
            "1 or 1 numbers",
        ),
        (torch.zeros((1, 4)), {"mean": (0.0,), "std": (1.0, 1.0)}, "std must be 1 or 4 numbers"),
        (torch.zeros((1, 4)), {"mean": (0.0,), "std": (0.0,)}, "must be above 0"),
        (torch.zeros((1, 2, 2, 2, 3), dtype=torch.uint8), {}, "images must be"),
    ],
)
def test_what_cannot_be_normalized(x: Tensor, facts: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        of(x, **facts)

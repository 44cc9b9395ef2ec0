"""Feature shift: deterministic for each client, and what each kind does."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor

from eunoe.config.options import FeatureShift
from eunoe.data import transforms
from eunoe.data.transforms import shift_inputs
from eunoe.errors import InputError

X = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
NOISE, ROTATION = FeatureShift(kind="noise", strength=0.5), FeatureShift(kind="rotation", strength=45)
CONTRAST = FeatureShift(kind="contrast", strength=1)


def noise_of(client: int) -> Tensor:
    return shift_inputs(torch.zeros(2, 100, 100), NOISE, 0, client)


@pytest.mark.parametrize("shift", [NOISE, ROTATION, CONTRAST], ids=lambda shift: shift.kind)
def test_a_change_belongs_to_the_client_and_to_each_of_its_samples(shift: FeatureShift) -> None:
    changed = shift_inputs(X, shift, 3, 7)
    assert changed.shape == X.shape
    assert changed.dtype == X.dtype
    assert torch.equal(changed, shift_inputs(X, shift, 3, 7))
    torch.testing.assert_close(torch.cat([shift_inputs(x[None], shift, 3, 7) for x in X]), changed)
    assert not torch.allclose(changed, shift_inputs(X, shift, 3, 8))
    assert not torch.allclose(changed, shift_inputs(X, shift, 4, 7))
    assert shift_inputs(X.double(), shift, 3, 7).dtype == torch.float64


def test_amounts_span_the_strength(monkeypatch: pytest.MonkeyPatch) -> None:
    noise = [noise_of(client).std().item() for client in range(100)]
    assert 0 <= min(noise) < 0.03
    assert 0.47 < max(noise) <= 0.52
    # The standard deviation is multiplied by a factor from 1 / e to e.
    x = torch.tensor([[-1.0, 1.0]])
    contrast = [shift_inputs(x, CONTRAST, 0, client)[0, 1].item() for client in range(300)]
    assert math.exp(-1) <= min(contrast) < math.exp(-0.95)
    assert math.exp(0.95) < max(contrast) <= math.exp(1)
    angles = []
    monkeypatch.setattr(transforms, "_rotate", lambda x, angle: angles.append(math.degrees(angle)))
    for client in range(300):
        shift_inputs(X, ROTATION, 0, client)
    assert -45 <= min(angles) < -43
    assert 43 < max(angles) <= 45


def test_noise_is_the_same_for_all_samples_and_has_no_mean() -> None:
    added = noise_of(1)
    assert torch.equal(added[0], added[1])
    assert added[0].mean().item() == pytest.approx(0, abs=0.02)


def test_contrast_keeps_the_mean_and_scales_the_rest() -> None:
    (low, middle, high) = shift_inputs(torch.tensor([[0.0, 2.0, 4.0]]), CONTRAST, 0, 3)[0].tolist()
    assert middle == pytest.approx(2)
    assert high - 2 == pytest.approx(2 - low)
    assert high != pytest.approx(4)


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_quarter_turns_are_exact(turns: int) -> None:
    turned = transforms._rotate(X, math.radians(90.0 * turns))
    torch.testing.assert_close(turned, torch.rot90(X, turns, (2, 3)), atol=1e-5, rtol=0)


def test_rotation_keeps_the_shape_of_what_is_not_square() -> None:
    # A horizontal bar through the middle of a wide image stands upright, as thick as before.
    x = torch.zeros(1, 1, 5, 9)
    x[:, :, 2] = 1
    turned = transforms._rotate(x, math.radians(90))
    expected = torch.zeros(1, 1, 5, 9)
    expected[:, :, :, 4] = 1
    torch.testing.assert_close(turned, expected, atol=1e-5, rtol=0)


def test_only_images_are_rotated_and_strengths_are_bounded() -> None:
    with pytest.raises(InputError, match="rotated"):
        shift_inputs(torch.rand(2, 3), ROTATION, 0, 0)
    for kind, strength in (("noise", 0), ("rotation", 181), ("contrast", 11), ("blur", 1)):
        with pytest.raises(ValidationError):
            FeatureShift.model_validate({"kind": kind, "strength": strength})

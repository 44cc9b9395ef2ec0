"""Feature shift: deterministic for each client, and what each kind does."""

import math

import pytest
import torch
from pydantic import ValidationError

from eunoe.config.options import FeatureShift
from eunoe.data.transforms import Shift, client_shift
from eunoe.errors import InputError

X = torch.rand(5, 3, 8, 8, generator=torch.Generator().manual_seed(0))
KINDS = [FeatureShift(kind="noise", strength=0.5), FeatureShift(kind="rotation", strength=45)]
KINDS += [FeatureShift(kind="contrast", strength=1)]


@pytest.mark.parametrize("shift", KINDS, ids=lambda shift: shift.kind)
def test_a_change_belongs_to_the_client_and_to_each_of_its_samples(shift: FeatureShift) -> None:
    first, again, other = (client_shift(shift, 3, client) for client in (7, 7, 8))
    assert first == again
    assert first != other
    assert client_shift(shift, 4, 7) != first
    changed = first.apply(X)
    assert changed.shape == X.shape
    assert changed.dtype == X.dtype
    torch.testing.assert_close(torch.cat([first.apply(x[None]) for x in X]), changed)
    assert not torch.allclose(changed, other.apply(X))
    assert first.apply(X.double()).dtype == torch.float64


def test_amounts_span_the_strength() -> None:
    noise, rotation, contrast = ([client_shift(shift, 0, k).amount for k in range(300)] for shift in KINDS)
    assert 0 <= min(noise) < 0.02
    assert 0.48 < max(noise) <= 0.5
    assert -45 <= min(rotation) < -43
    assert 43 < max(rotation) <= 45
    assert -1 <= min(contrast) < -0.95
    assert 0.95 < max(contrast) <= 1


def test_noise_has_the_standard_deviation_drawn_and_no_mean() -> None:
    added = Shift("noise", 0.3, 5).apply(torch.zeros(2, 100, 100))
    assert torch.equal(added[0], added[1])
    assert added[0].std().item() == pytest.approx(0.3, rel=0.03)
    assert added[0].mean().item() == pytest.approx(0, abs=0.01)


def test_contrast_keeps_the_mean_and_scales_the_rest() -> None:
    x = torch.tensor([[0.0, 2.0, 4.0]])
    torch.testing.assert_close(Shift("contrast", math.log(3)).apply(x), torch.tensor([[-4.0, 2.0, 8.0]]))


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_quarter_turns_are_exact(turns: int) -> None:
    turned = Shift("rotation", 90.0 * turns).apply(X)
    torch.testing.assert_close(turned, torch.rot90(X, turns, (2, 3)), atol=1e-5, rtol=0)


def test_rotation_keeps_the_shape_of_what_is_not_square() -> None:
    # A horizontal bar through the middle of a wide image stands upright, as thick as before.
    x = torch.zeros(1, 1, 5, 9)
    x[:, :, 2] = 1
    turned = Shift("rotation", 90.0).apply(x)
    expected = torch.zeros(1, 1, 5, 9)
    expected[:, :, :, 4] = 1
    torch.testing.assert_close(turned, expected, atol=1e-5, rtol=0)


def test_only_images_are_rotated_and_strengths_are_bounded() -> None:
    with pytest.raises(InputError, match="rotated"):
        Shift("rotation", 1.0).apply(torch.rand(2, 3))
    for kind, strength in (("noise", 0), ("rotation", 181), ("contrast", 11), ("blur", 1)):
        with pytest.raises(ValidationError):
            FeatureShift.model_validate({"kind": kind, "strength": strength})

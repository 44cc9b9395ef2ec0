"""Batch transforms against a loop over images."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from eunoe.config.options import Augment
from eunoe.data.transforms import augment_batch
from eunoe.errors import InputError


def drawn(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def one_by_one(x: torch.Tensor, options: Augment, seed: int) -> torch.Tensor:
    """The same draws, applied to one image after the other with slices."""
    generator, padding = drawn(seed), options.crop_padding
    images, channels, height, width = x.shape
    out = x.clone()
    if padding or options.flip:
        offsets = torch.randint(2 * padding + 1, (2, images, 1), generator=generator)
        for i in range(images):
            framed = torch.zeros(channels, height + 2 * padding, width + 2 * padding, dtype=x.dtype)
            framed[:, padding : padding + height, padding : padding + width] = x[i]
            top, left = offsets[0, i, 0], offsets[1, i, 0]
            out[i] = framed[:, top : top + height, left : left + width]
    if options.flip:
        mirrored = torch.randint(2, (images, 1), generator=generator, dtype=torch.bool)
        for i in range(images):
            if mirrored[i]:
                out[i] = torch.flip(out[i], [2])
    if options.cutout:
        centers = [torch.randint(length, (images, 1), generator=generator) for length in (height, width)]
        for i in range(images):
            top, left = (int(center[i]) - options.cutout // 2 for center in centers)
            out[
                i, :, max(top, 0) : max(top + options.cutout, 0), max(left, 0) : max(left + options.cutout, 0)
            ] = 0
    return out


@given(
    st.tuples(st.integers(1, 6), st.integers(1, 3), st.integers(1, 9), st.integers(1, 9)),
    st.builds(Augment, crop_padding=st.integers(0, 4), flip=st.booleans(), cutout=st.integers(0, 7)),
    st.sampled_from([torch.uint8, torch.float32, torch.float64]),
    st.integers(0, 1000),
)
def test_a_batch_is_changed_as_its_images_are_one_by_one(
    shape: tuple[int, ...], options: Augment, dtype: torch.dtype, seed: int
) -> None:
    x = torch.randint(1, 256, shape, generator=drawn(seed)).to(dtype)
    given_x = x.clone()
    changed = augment_batch(x, options, drawn(seed))
    assert changed.dtype == dtype
    assert torch.equal(changed, one_by_one(x, options, seed))
    assert torch.equal(x, given_x)


def test_nothing_is_on_by_default() -> None:
    x = torch.rand(2, 3)
    assert augment_batch(x, Augment(), drawn(0)) is x


def test_each_image_has_its_own_offset() -> None:
    x = torch.arange(1.0, 65.0).reshape(1, 1, 8, 8).expand(400, -1, -1, -1)
    crops = augment_batch(x, Augment(crop_padding=2), drawn(0)).flatten(1).unique(dim=0)
    assert len(crops) == 25
    flips = augment_batch(x, Augment(flip=True), drawn(0))
    assert 150 < int((flips[:, 0, 0, 0] == 8).sum()) < 250


def test_a_cut_out_square_has_the_requested_side() -> None:
    cut = augment_batch(torch.ones(300, 2, 12, 12), Augment(cutout=4), drawn(0))
    blanks = (cut[:, 0] == 0).flatten(1).sum(1)
    assert blanks.max() == 16
    assert blanks.min() == 4
    assert torch.equal(cut[:, 0], cut[:, 1])


def test_samples_that_are_no_images_are_refused() -> None:
    with pytest.raises(InputError, match="need images"):
        augment_batch(torch.rand(2, 3), Augment(flip=True), drawn(0))


def test_a_crop_has_the_border_it_is_given() -> None:
    x = torch.ones(50, 2, 4, 4)
    border = torch.tensor([-1.0, -2.0]).view(2, 1, 1)
    changed = augment_batch(x, Augment(crop_padding=2), drawn(0), border)
    assert set(changed[:, 0].unique().tolist()) == {1.0, -1.0}
    assert set(changed[:, 1].unique().tolist()) == {1.0, -2.0}
    plain = augment_batch(x, Augment(crop_padding=2), drawn(0))
    assert torch.equal(plain == 0, changed < 0)

"""Decoding of images: one mode and one size for all."""

import io

import numpy as np
import pytest
from PIL import Image

from eunoe.data.sources.images import ImageDecoder
from eunoe.errors import InputError


def encoded(height: int = 2, width: int = 3, mode: str = "L") -> io.BytesIO:
    out = io.BytesIO()
    Image.new(mode, (width, height), 7 if mode in ("L", "I;16") else (7, 8, 9)).save(out, "PNG")
    return out


def test_gray_and_colored_images_have_their_shapes() -> None:
    assert ImageDecoder().decode(encoded(), "a").tolist() == [[7] * 3] * 2
    colored = ImageDecoder().decode(encoded(mode="RGB"), "a")
    assert (colored.shape, colored.dtype) == ((2, 3, 3), np.uint8)
    assert colored[0, 0].tolist() == [7, 8, 9]


def test_a_mode_and_a_size_bring_all_to_one_form() -> None:
    decoder = ImageDecoder("RGB", (4, 5))
    shapes = [decoder.decode(image, "a").shape for image in (encoded(), encoded(9, 9, "RGB"))]
    assert shapes == [(4, 5, 3), (4, 5, 3)]
    assert ImageDecoder(size=6).decode(encoded(), "a").shape == (6, 6)


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (encoded(mode="RGB"), "b is colored but a is gray; set mode to RGB or L"),
        (encoded(3, 3), r"b is 3 x 3 but a is 2 x 3; set a size .* data.size=\[2,3\]"),
        (encoded(mode="I;16"), "b has pixels of type I;16; only 8-bit channels"),
        (io.BytesIO(b"text"), r"b is not an image Pillow can read \(UnidentifiedImageError\)"),
    ],
    ids=["mode", "size", "depth", "text"],
)
def test_an_image_that_is_unlike_the_first(second: io.BytesIO, says: str) -> None:
    decoder = ImageDecoder()
    decoder.decode(encoded(), "a")
    with pytest.raises(InputError, match=says):
        decoder.decode(second, "b")

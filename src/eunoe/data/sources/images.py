"""Decoding of images to arrays of bytes, all of the same size and all gray or all colored."""

from pathlib import Path
from typing import IO, Any, Literal

import numpy as np
from pydantic import PositiveInt

from eunoe.data.checks import Bytes
from eunoe.errors import InputError, first_line

Mode = Literal["L", "RGB"]
Size = PositiveInt | tuple[PositiveInt, PositiveInt]
_GRAY = {"1", "L", "LA"}
_COLORED = {"RGB", "RGBA", "P", "CMYK", "YCbCr"}
_NAMES: dict[Mode, str] = {"L": "gray", "RGB": "colored"}


class ImageDecoder:
    """Decodes images one by one; the first one determines `mode` and `size` if they are None.

    `mode` L is gray [H, W] and RGB is colored [H, W, 3]; `size` is (height, width), or one number for both.
    """

    def __init__(self, mode: Mode | None = None, size: Size | None = None) -> None:
        self._mode = mode
        self._resize = (size, size) if isinstance(size, int) else size
        self._first: tuple[str, Mode, tuple[int, int]] | None = None

    def decode(self, source: Path | IO[bytes], where: str) -> Bytes:
        """Return the image as bytes [H, W] or [H, W, 3]; `where` names it in errors."""
        from PIL import Image

        try:
            with Image.open(source) as image:
                return self._convert(image, where)
        except Image.DecompressionBombError as error:
            raise InputError(f"{where} is too large: {first_line(error)}") from None
        except InputError:
            raise
        except Exception as error:
            # Pillow's decoders raise errors of many types, and their messages name a buffer in memory.
            raise InputError(
                f"{where} is not an image that Pillow can read ({type(error).__name__})"
            ) from None

    def _convert(self, image: Any, where: str) -> Bytes:
        from PIL import Image

        if image.mode not in _GRAY | _COLORED:
            raise InputError(
                f"{where} has pixels of type {image.mode}; only 8 bits per channel are supported"
            )
        mode: Mode = "L" if image.mode in _GRAY else "RGB"
        size = self._resize or (image.height, image.width)
        if self._first is None:
            self._first = (where, mode, size)
        first, first_mode, first_size = self._first
        if self._mode is None and mode != first_mode:
            raise InputError(
                f"{where} is {_NAMES[mode]} but {first} is {_NAMES[first_mode]}; "
                'set mode = "RGB" or mode = "L" to convert them'
            )
        if size != first_size:
            raise InputError(
                f"{where} is {size[0]} x {size[1]} but {first} is {first_size[0]} x {first_size[1]}; "
                f"set a size to resize them, for example --set data.size=[{first_size[0]},{first_size[1]}]"
            )
        image = image.convert(self._mode or mode)
        if (image.height, image.width) != size:
            image = image.resize((size[1], size[0]), Image.Resampling.BILINEAR)
        return np.asarray(image, np.uint8)

"""Images as arrays of bytes, all of the same size and all gray or all colored; and folders of images."""

import os
from pathlib import Path
from typing import IO, Annotated, Any, Literal

import numpy as np
from PIL import Image
from pydantic import Field

from eunoe.data.arrays import from_arrays
from eunoe.data.checks import Bytes, Integers
from eunoe.data.samples import DataSet
from eunoe.errors import InputError, first_line, nearest
from eunoe.system.machine import check_free

Mode = Literal["L", "RGB"]
Side = Annotated[int, Field(ge=1, le=4096)]
Size = Side | tuple[Side, Side]
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
        try:
            with Image.open(source) as image:
                return self._convert(image, where)
        except Image.DecompressionBombError as error:
            raise InputError(f"{where} is too large: {first_line(error)}") from None
        except InputError:
            raise
        except Exception as error:
            # Pillow's decoders raise errors of many types, and their messages name a buffer in memory.
            raise InputError(f"{where} is not an image Pillow can read ({type(error).__name__})") from None

    def _convert(self, image: Any, where: str) -> Bytes:
        if image.mode not in _GRAY | _COLORED:
            raise InputError(f"{where} has pixels of type {image.mode}; only 8-bit channels are supported")
        mode: Mode = "L" if image.mode in _GRAY else "RGB"
        size = self._resize or (image.height, image.width)
        first, first_mode, first_size = self._first = self._first or (where, mode, size)
        if self._mode is None and mode != first_mode:
            raise InputError(
                f"{where} is {_NAMES[mode]} but {first} is {_NAMES[first_mode]}; set mode to RGB or L"
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


def folder(path: Path, *, size: Size | None = None, mode: Mode | None = None) -> DataSet:
    """A folder of images, train/<class>/ and test/<class>/, sorted by name; `size` resizes them all."""
    root = Path(path).expanduser()
    for part in ("train", "test"):
        if not os.path.isdir(root / part):
            raise InputError(f"{root} has no folder {part}/; it needs train/<class>/ and test/<class>/")
    class_names = _folders(root / "train")
    if not class_names:
        raise InputError(f"{root / 'train'} has no folders; there must be one per class")
    decoder = ImageDecoder(mode, size)
    train, test = (read_part(root / part, class_names, decoder) for part in ("train", "test"))
    empty = [name for label, name in enumerate(class_names) if label not in train[1]]
    if empty:
        raise InputError(f"{root / 'train' / empty[0]} has no images; every class needs training images")
    return from_arrays(*train, *test, name=root.name, classes=len(class_names), class_names=class_names)


def read_part(part: Path, class_names: list[str], decoder: ImageDecoder) -> tuple[Bytes, Integers]:
    """Read the images in part/<class>/ and their labels; a class may be absent."""
    for name in _folders(part):
        if name not in class_names:
            raise InputError(f"{part / name} has no training images; {nearest(name, class_names)}")
    files = [
        (file, label)
        for label, name in enumerate(class_names)
        for file in sorted((part / name).glob("**/*"))
        if file.is_file() and not file.name.startswith(".")
    ]
    if not files:
        raise InputError(f"{part} has no images; put them in {part}/<class>/")
    first = decoder.decode(files[0][0], str(files[0][0]))
    check_free(len(files) * first.nbytes, f"the images in {part}")
    x = np.empty((len(files), *first.shape), np.uint8)
    for i, (file, _) in enumerate(files):
        x[i] = decoder.decode(file, str(file))
    return x, np.array([label for _, label in files], np.int64)


def _folders(part: Path) -> list[str]:
    return sorted(entry.name for entry in part.iterdir() if entry.is_dir() and not entry.name.startswith("."))

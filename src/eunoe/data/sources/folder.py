"""Image folders: train/<class>/ and test/<class>/."""

from pathlib import Path

import numpy as np

from eunoe.data.arrays import from_arrays
from eunoe.data.checks import Bytes, Integers
from eunoe.data.samples import DataSet
from eunoe.data.sources.images import ImageDecoder, Mode, Size
from eunoe.errors import InputError, nearest


def folder(path: Path, *, size: Size | None = None, mode: Mode | None = None) -> DataSet:
    """A folder of images, train/<class>/... and test/<class>/...; `size` resizes all to one height and width.

    Classes and files are sorted by name; names that start with a dot are ignored.
    """
    root = Path(path).expanduser()
    for part in ("train", "test"):
        if not (root / part).is_dir():
            raise InputError(f"{root} has no folder {part}/; it needs train/<class>/ and test/<class>/")
    class_names = _folders(root / "train")
    if not class_names:
        raise InputError(f"{root / 'train'} has no folders; there must be one per class")
    decoder = ImageDecoder(mode, size)
    (x_train, y_train), (x_test, y_test) = (
        read_part(root / part, class_names, decoder) for part in ("train", "test")
    )
    empty = [name for label, name in enumerate(class_names) if label not in y_train]
    if empty:
        raise InputError(f"{root / 'train' / empty[0]} has no images; every class needs training images")
    return from_arrays(
        x_train, y_train, x_test, y_test, name=root.name, classes=len(class_names), class_names=class_names
    )


def read_part(part: Path, class_names: list[str], decoder: ImageDecoder) -> tuple[Bytes, Integers]:
    """Read the images in part/<class>/ and their labels; a class may be absent."""
    for name in _folders(part):
        if name not in class_names:
            raise InputError(
                f"{part / name} is a class without training images; {nearest(name, class_names)}"
            )
    files = [
        (file, label)
        for label, name in enumerate(class_names)
        for file in sorted((part / name).glob("**/*"))
        if file.is_file() and not file.name.startswith(".")
    ]
    if not files:
        raise InputError(f"{part} has no images; put them in {part}/<class>/")
    x: Bytes | None = None
    for i, (file, _) in enumerate(files):
        image = decoder.decode(file, str(file))
        if x is None:
            x = np.empty((len(files), *image.shape), np.uint8)
        x[i] = image
    assert x is not None
    return x, np.array([label for _, label in files], np.int64)


def _folders(part: Path) -> list[str]:
    return sorted(entry.name for entry in part.iterdir() if entry.is_dir() and not entry.name.startswith("."))

"""Data sets in .npz files: read without copying, written atomically.

The arrays of an uncompressed .npz file have the same layout in the file as in memory, so they are mapped:
opening takes no time, and processes that open the same file share its memory. Pages are mapped copy-on-write,
so the file cannot change.
"""

import logging
import lzma
import math
import struct
import zipfile
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from tokenize import TokenError
from typing import Any, cast

import numpy as np
from torch import Tensor

from eunoe.core.fields import Fields, Ragged, Stored, describe_input
from eunoe.core.tasks import TaskName
from eunoe.data.arrays import from_arrays, mean_and_std
from eunoe.data.checks import Array, as_tensor, check_numbers
from eunoe.data.samples import DataSet
from eunoe.errors import InputError, RunFailed, first_line, nearest
from eunoe.system.files import make_folder, open_regular, reading, replacing
from eunoe.system.machine import check_expansion

logger = logging.getLogger(__name__)
NEEDED = ("x_train", "y_train", "x_test", "y_test")
OPTIONAL = ("writer_train", "writer_test", "class_names")
_ALIGNMENT = 64
_PADDING_FIELD = 0xE0E0  # the id of a zip extra field that no other program uses
_ZIP64_FIELD_BYTES = 20
_BROKEN = (zipfile.BadZipFile, struct.error, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError)
# What NumPy raises for a damaged header.
NO_HEADER = (ValueError, SyntaxError, TokenError, TypeError, RecursionError, MemoryError, OverflowError)


def npz(path: Path, *, classes: int | None = None, task: TaskName | None = None) -> DataSet:
    """A .npz file with x_train, y_train, x_test, y_test, optionally writer_train, writer_test.

    y is one integer per sample (classes), rows of 0 and 1 (multilabel) or real numbers (regression); set
    `task` if that is ambiguous.
    """
    path = Path(path).expanduser()
    return make_dataset(read_npz(path), path.stem, str(path), classes=classes, task=task)


def signal(path: Path, *, classes: int | None = None) -> DataSet:
    """A .npz file with real inputs [n, time, channels], standardized by channel of the training part."""
    return standardize_signal(npz(path, classes=classes))


def standardize_signal(data: DataSet) -> DataSet:
    """Return signals with mean and std set to those of each channel of the training part."""
    x = data.train.tensor
    if x.ndim != 3 or not x.is_floating_point():
        raise InputError(f"{data.name}: signals must be real [time, channels], not {describe_input(x)}")
    mean, std = mean_and_std(x.numpy().reshape(-1, x.shape[-1]))
    return replace(data, mean=mean, std=std)


def make_dataset(arrays: Mapping[str, Any], name: str, where: str, **options: Any) -> DataSet:
    """Build a data set from the arrays of a file, which `where` names in errors."""
    # Some files also have samples of other writers, which belong to no part.
    arrays = {key: array for key, array in arrays.items() if not key.endswith("_other")}
    arrays = unpack_fields(arrays, ("x_train", "x_test"))
    for key in arrays:
        if key not in NEEDED + OPTIONAL:
            raise InputError(f"{where}: unknown array {key!r}; {nearest(key, NEEDED + OPTIONAL)}")
    if missing := [key for key in NEEDED if key not in arrays]:
        raise InputError(f"{where}: {', '.join(missing)} missing; it must have {', '.join(NEEDED)}")
    rest = {key: array for key, array in arrays.items() if key != "class_names"}
    if "class_names" in arrays:
        options.setdefault("class_names", [str(name) for name in np.atleast_1d(arrays["class_names"])])
    return replace(from_arrays(**rest, name=where, **options), name=name)


def unpack_fields(arrays: Mapping[str, Any], parts: Sequence[str]) -> dict[str, Any]:
    """Combine the arrays of a file that are fields of these parts.

    `x.ids` is the field ids of x. `offsets.x.ids` are the offsets of a field of varying length, and
    `padding.x.ids` is its padding value, if not 0.
    """
    result = {key: value for key, value in arrays.items() if "." not in key}
    for part in parts:
        names = [key.removeprefix(f"{part}.") for key in arrays if key.startswith(f"{part}.")]
        if names and part in arrays:
            raise InputError(f"both {part} and {part}.{names[0]} exist; samples are one array or have fields")
        if names:
            fields = [_unpack_field(arrays, f"{part}.{name}") for name in names]
            numbered = names == [str(number) for number in range(len(names))]
            result[part] = Fields(fields, None if numbered else names)
        elif part in arrays:
            result[part] = _unpack_field(arrays, part)
    return result


def pack_fields(part: str, x: Stored) -> dict[str, Array]:
    """Return the arrays from which `unpack_fields` restores the inputs."""
    if isinstance(x, Fields):
        return {
            key: array
            for name, field in zip(x.labels, x.values, strict=True)
            for key, array in pack_fields(f"{part}.{name}", field).items()
        }
    if isinstance(x, Tensor):
        return {part: x.numpy()}
    padding = {f"padding.{part}": np.array([x.padding])} if x.padding else {}
    return {part: x.values.numpy(), f"offsets.{part}": x.offsets.numpy(), **padding}


def _unpack_field(arrays: Mapping[str, Any], key: str) -> Any:
    if f"offsets.{key}" not in arrays:
        return arrays[key]
    padding = np.asarray(arrays.get(f"padding.{key}", [0]))
    if padding.size != 1 or padding.dtype.kind not in "iufb":
        raise InputError(f"padding.{key} is {padding.dtype} {list(padding.shape)}; it must be one number")
    offsets = np.asarray(arrays[f"offsets.{key}"])
    if offsets.dtype.kind not in "iu":
        raise InputError(f"offsets.{key} is {offsets.dtype}; offsets must be integers")
    offsets = offsets.astype(np.int64, copy=False)
    return Ragged(check_numbers(arrays[key], key, dimensions=1), as_tensor(offsets), padding.item())


def load_or_compute(path: Path, compute: Callable[[], dict[str, Array]]) -> dict[str, Array]:
    """Read arrays from a file, or compute and write them; a file that cannot be written is a warning."""
    if path.exists():
        return read_npz(path)
    arrays = compute()
    try:
        write_npz(path, arrays)
    except RunFailed as error:
        logger.warning("not cached: %s", error)
    return arrays


def read_npz(path: Path) -> dict[str, Array]:
    """Return all arrays of a .npz file, mapped if they are uncompressed; a CRC mismatch is an error."""
    try:
        with reading(path), open_regular(path) as file, zipfile.ZipFile(file) as archive:
            names = [member.filename.removesuffix(".npy") for member in archive.infolist()]
            if duplicate := next((name for name in names if names.count(name) > 1), None):
                raise InputError(f"{path} has the array {duplicate!r} twice")
            members = (_read_member(archive, member, file, path) for member in archive.infolist())
            return dict(zip(names, members, strict=True))
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except RunFailed as error:
        raise InputError(str(error)) from None
    except (*_BROKEN, NotImplementedError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is not a readable .npz file ({first_line(error)}); write it with numpy.savez"
        ) from None


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays so that `read_npz` can map them: uncompressed, each aligned to 64 bytes.

    numpy.savez does not align, so that only its arrays of single bytes can be mapped. Equal arrays give
    equal files, and the file appears under its name only when it is complete.
    """
    make_folder(path.parent)
    with (
        replacing(path) as partial,
        partial.open("wb") as file,
        zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive,
    ):
        for key, array in arrays.items():
            member = zipfile.ZipInfo(f"{key}.npy", date_time=(1980, 1, 1, 0, 0, 0))
            start = file.tell() + 30 + len(member.filename) + _ZIP64_FIELD_BYTES + 4
            padding = -start % _ALIGNMENT
            member.extra = struct.pack("<HH", _PADDING_FIELD, padding) + bytes(padding)
            with archive.open(member, "w", force_zip64=True) as out:
                np.lib.format.write_array(cast(Any, out), np.ascontiguousarray(array), allow_pickle=False)


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, file: Any, path: Path) -> Array:
    try:
        if member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & 1:
            file.seek(member.header_offset)
            name_bytes, extra_bytes = struct.unpack("<26xHH", file.read(30))
            start = file.seek(member.header_offset + 30 + name_bytes + extra_bytes)
            shape, fortran_order, dtype = _array_header(file)
            begins = file.tell()
            _check_length(shape, dtype, member.file_size - (begins - start))
            plain = dtype.isnative and not fortran_order and not dtype.hasobject and 0 not in shape
            # Vector instructions may crash on unaligned numbers, so those are read instead.
            if plain and begins % dtype.alignment == 0:
                content = np.memmap(path, np.uint8, "r", start, (member.file_size,))
                if zlib.crc32(content.data) != member.CRC:
                    raise ValueError("CRC mismatch: the file is damaged")
                return np.asarray(np.memmap(path, dtype, mode="c", offset=begins, shape=shape))
        with archive.open(member) as stream:
            shape, _, dtype = _array_header(stream)
            _check_length(shape, dtype, member.file_size - stream.tell())
            check_expansion(member.file_size, member.compress_size, f"{path}: {member.filename}")
            stream.seek(0)
            array: Array = np.lib.format.read_array(cast(Any, stream), allow_pickle=False)
            # The CRC is compared when the end is read.
            stream.read()
            return array
    except (*_BROKEN, *NO_HEADER) as error:
        raise InputError(f"{path}: {member.filename} is not a plain array ({first_line(error)})") from None


def _check_length(shape: tuple[int, ...], dtype: np.dtype[Any], left: int) -> None:
    """Raise ValueError, before memory is allocated, if an array does not have the size of its member."""
    wanted = math.prod(shape) * dtype.itemsize
    if any(size < 0 for size in shape) or (wanted != left and not dtype.hasobject):
        raise ValueError(f"shape {list(shape)} of {dtype} needs {wanted} bytes, but there are {left}")


def _array_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)

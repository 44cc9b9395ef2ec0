"""Data sets in .npz files: read without copying, written atomically.

The arrays of a .npz that is not compressed lie in the file as they lie in memory, so they are mapped
from it: opening takes no time, and processes that open the same file share its memory. Pages are
mapped copy-on-write, so nothing can change the file.
"""

import lzma
import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from tokenize import TokenError
from typing import Any, cast

import numpy as np

from eunoe.core.tasks import TaskName
from eunoe.data.arrays import from_arrays
from eunoe.data.checks import Array
from eunoe.data.field_arrays import unpacked
from eunoe.data.samples import DataSet
from eunoe.errors import InputError, RunFailed, first_line, nearest
from eunoe.system.files import reading

NEEDED = ("x_train", "y_train", "x_test", "y_test")
OPTIONAL = ("writer_train", "writer_test", "class_names")
_ALIGNMENT = 64
_PADDING_FIELD = 0xE0E0  # the id of a zip extra field that no other program uses
_ZIP64_FIELD_BYTES = 20
_BROKEN = (zipfile.BadZipFile, struct.error, zlib.error, lzma.LZMAError, EOFError, OSError, RuntimeError)
_NO_HEADER = (ValueError, SyntaxError, TokenError, TypeError)
# Members whose CRC was found to be right: path, size, time of change and name.
_verified: set[tuple[str, int, int, str]] = set()


def npz(path: Path, *, classes: int | None = None, task: TaskName | None = None) -> DataSet:
    """A .npz file with x_train, y_train, x_test, y_test, optionally writer_train, writer_test.

    y is an integer each for classes, a row of 0 and 1 for labels, or real numbers; `task` states which where
    that is open.
    """
    path = Path(path).expanduser()
    return dataset_of(read_npz(path), path.stem, str(path), classes=classes, task=task)


def dataset_of(arrays: Mapping[str, Any], name: str, where: str, **known: Any) -> DataSet:
    """Build a data set from the arrays of a file; errors name the file."""
    # Samples of other writers, which some files hold besides, belong to no part.
    arrays = {key: array for key, array in arrays.items() if not key.endswith("_other")}
    arrays = unpacked(arrays, ("x_train", "x_test"))
    for key in arrays:
        if key not in NEEDED + OPTIONAL:
            raise InputError(f"{where}: unknown array {key!r}; {nearest(key, NEEDED + OPTIONAL)}")
    if missing := [key for key in NEEDED if key not in arrays]:
        raise InputError(f"{where}: {', '.join(missing)} missing; it must hold {', '.join(NEEDED)}")
    rest = {key: array for key, array in arrays.items() if key != "class_names"}
    if "class_names" in arrays:
        known.setdefault("class_names", [str(name) for name in arrays["class_names"]])
    return replace(from_arrays(**rest, name=where, **known), name=name)


def read_npz(path: Path) -> dict[str, Array]:
    """All arrays of a .npz file, memory-mapped if stored uncompressed, else read into memory.

    Whichever it is, an array whose CRC is not that of the file is refused.
    """
    try:
        with reading(path), zipfile.ZipFile(path) as archive, path.open("rb") as file:
            names = [member.filename.removesuffix(".npy") for member in archive.infolist()]
            if twice := next((name for name in names if names.count(name) > 1), None):
                raise InputError(f"{path} holds the array {twice!r} twice")
            return dict(
                zip(names, (_member(archive, m, file, path) for m in archive.infolist()), strict=True)
            )
    except FileNotFoundError:
        raise InputError(f"there is no file {path}") from None
    except RunFailed as error:
        raise InputError(str(error)) from None
    except (*_BROKEN, NotImplementedError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} is not a readable .npz file ({first_line(error)}); write one with numpy.savez"
        ) from None


def write_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Write arrays so that `read_npz` can map them: not compressed, each starting at a multiple of 64 bytes.

    numpy.savez aligns nothing, so that only its arrays of single bytes can be mapped. Equal arrays give
    equal files, and the file appears under its name only when it is complete.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with partial.open("wb") as file:
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                for key, array in arrays.items():
                    member = zipfile.ZipInfo(f"{key}.npy", date_time=(1980, 1, 1, 0, 0, 0))
                    start = file.tell() + 30 + len(member.filename) + _ZIP64_FIELD_BYTES + 4
                    member.extra = struct.pack("<HH", _PADDING_FIELD, -start % _ALIGNMENT) + bytes(
                        -start % _ALIGNMENT
                    )
                    with archive.open(member, "w", force_zip64=True) as out:
                        np.lib.format.write_array(
                            cast(Any, out), np.ascontiguousarray(array), allow_pickle=False
                        )
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, file: Any, path: Path) -> Array:
    try:
        if member.compress_type == zipfile.ZIP_STORED and not member.flag_bits & 1:
            file.seek(member.header_offset)
            name_bytes, extra_bytes = struct.unpack("<26xHH", file.read(30))
            start = file.seek(member.header_offset + 30 + name_bytes + extra_bytes)
            shape, fortran_order, dtype = _array_header(file)
            begins = file.tell()
            _check_length(shape, dtype, member.file_size - (begins - start))
            plain = dtype.isnative and not fortran_order and not dtype.hasobject and 0 not in shape
            # Vector instructions may crash on numbers at odd addresses, so those are read instead.
            if plain and begins % dtype.alignment == 0:
                _check_crc(path, start, member)
                return np.asarray(np.memmap(path, dtype, mode="c", offset=begins, shape=shape))
        with archive.open(member) as stream:
            shape, _, dtype = _array_header(stream)
            _check_length(shape, dtype, member.file_size - stream.tell())
            stream.seek(0)
            array: Array = np.lib.format.read_array(cast(Any, stream), allow_pickle=False)
            # The CRC is compared when the end is read.
            stream.read()
            return array
    except (*_BROKEN, *_NO_HEADER, OverflowError, MemoryError) as error:
        raise InputError(f"{path}: {member.filename} is not a plain array ({first_line(error)})") from None


def _check_length(shape: tuple[int, ...], dtype: np.dtype[Any], left: int) -> None:
    """Refuse an array that does not fill its place, before memory is taken for it."""
    wanted = math.prod(shape) * dtype.itemsize
    if any(size < 0 for size in shape) or (wanted != left and not dtype.hasobject):
        raise ValueError(f"shape {list(shape)} of {dtype} takes {wanted} bytes and there are {left}")


def _check_crc(path: Path, start: int, member: zipfile.ZipInfo) -> None:
    """Compare a stored member's CRC, once for each state of a file: it is mapped many times and read once."""
    about = path.stat()
    key = (str(path), about.st_size, about.st_mtime_ns, member.filename)
    if key in _verified:
        return
    mapped, crc, step = np.memmap(path, np.uint8, "r", start, (member.file_size,)), 0, 1 << 24
    for part in range(0, member.file_size, step):
        crc = zlib.crc32(mapped[part : part + step].data, crc)
    if crc != member.CRC:
        raise ValueError("its CRC is not the file's: the file is damaged")
    _verified.add(key)


def _array_header(file: Any) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    return read(file)

"""CSV and Parquet files with columns of any type in any role, whole or damaged.

Any answer but a traceback is right: a data set, or an error of one line.
"""

import gzip
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from eunoe.data.loading import load
from eunoe.data.starter import starter_configs
from tests.attacks.damage import BINARY, TEXT

ROWS = 30
INTEGERS = (pa.int8(), pa.int16(), pa.int64(), pa.uint8(), pa.uint64())
REALS = (pa.float16(), pa.float32(), pa.float64())
TEXTS = (pa.string(), pa.large_string(), pa.string_view())
TIMES: tuple[Any, ...] = (
    *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
    *(pa.timestamp("ns", "UTC"), pa.date32(), pa.date64(), pa.time32("s"), pa.time64("ns")),
    *(pa.duration("s"), pa.duration("ns")),
)
OTHERS: tuple[Any, ...] = (
    *(pa.bool_(), pa.null(), pa.binary(), pa.binary(3), pa.decimal128(20, 3), pa.decimal256(60, 3)),
    *(pa.dictionary(pa.int8(), pa.string()), pa.dictionary(pa.int32(), pa.int64())),
    *(pa.list_(pa.int64()), pa.list_(pa.float32(), 2), pa.large_list(pa.string()), pa.map_("str", pa.int8())),
    *(pa.struct({"a": pa.int64()}), pa.struct({"a": pa.list_(pa.string())}), pa.uuid()),
)
# Plain types are as likely as all others together, so that some tables can be used.
TYPES = (*INTEGERS, *REALS, *TEXTS) * 3 + TIMES + OTHERS
NAMES = ("a", "label", "client", "part", "text", "", "label ", "é", "\x1b[31m", "a" * 34_000)
CELLS = (
    *("0", "1", "2", "3.5", "red", "blue", "train", "test", "", "NA", "?", "NaN", "inf", "-0", "1e400"),
    *(str(2**53 + 1), str(2**63), "9" * 400, "2020-01-01", "2020-01-01 00:00:00.123456789", "12:30:00"),
    *("true", '"a,b"', '"', "a\tb", "\x00", "\ufeff", "some words of a text", "x" * 5000, "[1, 2]"),
)


def table_case(rng: np.random.Generator, home: Path) -> tuple[str, Callable[[], str]]:
    """A table of columns of random types, read with random roles."""
    names = [NAMES[int(at)] for at in rng.choice(len(NAMES), int(rng.integers(1, 6)), replace=True)]
    if rng.random() < 0.8:
        names = list(dict.fromkeys([*names, "label"]))
    suffix = ("csv", "csv", "csv.gz", "parquet", "parquet")[int(rng.integers(5))]
    path = home / f"table.{suffix}"
    kinds = write(path, names, rng)
    content, damaged = path.read_bytes(), ""
    if rng.random() < 0.3:
        ways = TEXT if suffix == "csv" else BINARY
        way = ways[int(rng.integers(len(ways)))]
        path.write_bytes(way(content, rng))
        damaged = f" {way.__name__}"

    def pick() -> str:
        return names[int(rng.integers(len(names)))]

    roles: dict[str, Any] = {"label": "label" if rng.random() < 0.7 else pick()}
    for role, chance in (("client", 0.3), ("part", 0.2)):
        if rng.random() < chance:
            roles[role] = pick()
    if rng.random() < 0.2:
        roles["categorical"] = (pick(),)
    elif rng.random() < 0.2:
        roles["drop"] = (pick(),)
    command = ("table", "text", "init")[int(rng.choice(3, p=[0.6, 0.2, 0.2]))]

    def action() -> str:
        if command == "init":
            starter_configs(str(path), label=roles["label"], client=roles.get("client"))
        elif command == "text":
            shared = {key: value for key, value in roles.items() if key in ("label", "client", "part")}
            load("text", path=path, text=names[0], **shared)
        else:
            load("table", path=path, **roles)
        return "other"

    return f"{command} {suffix}{damaged}: {' '.join(kinds)}", action


def write(path: Path, names: list[str], rng: np.random.Generator) -> list[str]:
    """Write a table of these columns; give their types."""
    if path.suffix != ".parquet":
        return _write_text(path, names, rng)
    types = [TYPES[int(at)] for at in rng.integers(len(TYPES), size=len(names))]
    columns = [_column(kind, rng) for kind in types]
    frame = pa.Table.from_arrays(columns, names=names)
    parquet.write_table(frame, path, version="2.6", write_page_checksum=bool(rng.random() < 0.5))
    return [str(kind)[:20] for kind in types]


def _column(kind: Any, rng: np.random.Generator) -> Any:
    """A column of few or many distinct values, some of them null, or with bytes that are not UTF-8."""
    if kind in TEXTS[:1] and rng.random() < 0.2:
        offsets = np.arange(ROWS + 1, dtype=np.int32).tobytes()
        return pa.Array.from_buffers(kind, ROWS, [None, pa.py_buffer(offsets), pa.py_buffer(b"\xff" * ROWS)])
    most = (2, 3, ROWS)[int(rng.integers(3))]
    numbers = rng.integers(0, most, ROWS)
    values: list[Any] = [_value(kind, int(number), rng) for number in numbers]
    if rng.random() < 0.3:
        values = [None if rng.random() < 0.2 else value for value in values]
    return pa.array(values, kind)


def _value(kind: Any, number: int, rng: np.random.Generator) -> Any:
    types = pa.types
    if types.is_null(kind):
        return None
    if types.is_boolean(kind):
        return bool(number % 2)
    if types.is_integer(kind):
        return 2**60 + number if kind.bit_width == 64 and rng.random() < 0.05 else number
    if types.is_floating(kind):
        odd = (np.nan, np.inf, -0.0, number + 0.5)
        return (
            np.float16(number) if kind == pa.float16() else odd[number % 4] if rng.random() < 0.05 else number
        )
    if types.is_decimal(kind):
        return Decimal(number)
    if types.is_temporal(kind):
        if types.is_time(kind) or types.is_duration(kind) or rng.random() < 0.9:
            return pa.scalar(number, pa.int32() if kind.bit_width == 32 else pa.int64()).cast(kind)
        return None
    if types.is_struct(kind):
        return {"a": number if kind.field("a").type == pa.int64() else [str(number)]}
    if types.is_map(kind):
        return [("k", number)]
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return [str(number) if types.is_string(kind.value_type) else number] * 2
    if types.is_dictionary(kind):
        return number if types.is_integer(kind.value_type) else str(number)
    if kind == pa.uuid():
        return bytes([number]) * 16
    if types.is_binary(kind) or types.is_fixed_size_binary(kind):
        return f"{number:03d}".encode()
    words = ("red", "blue", "green", "train", "test", "a longer text of words", "", "\x1b[31m")
    return words[number % len(words)]


def _write_text(path: Path, names: list[str], rng: np.random.Generator) -> list[str]:
    """Write CSV with a few kinds of cells in each column, and in some tables anything anywhere."""
    wild = rng.random() < 0.2
    kinds = [rng.choice(len(CELLS), int(rng.integers(1, 4))) for _ in names]
    lines = [",".join(names)]
    for _ in range(int(rng.integers(0, 2 * ROWS))):
        cells = [CELLS[int(rng.choice(kind))] for kind in kinds]
        if wild and rng.random() < 0.3:
            cells = [*cells[: int(rng.integers(len(cells) + 1))], CELLS[int(rng.integers(len(CELLS)))]]
        lines.append(",".join(cells))
    encoding = ("utf-8", "utf-8-sig", "utf-16", "latin-1")[int(rng.choice(4, p=[0.85, 0.05, 0.05, 0.05]))]
    content = ("\n", "\r\n")[int(rng.integers(2))].join(lines).encode(encoding, "replace")
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return [encoding]

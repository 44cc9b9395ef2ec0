"""Damaged data files of every format.

A .npz file holds a CRC of every array, so what is read of a damaged one is what was written. CSV has no
checksums, and those of images and Parquet do not cover all of them: a changed pixel or cell is "other".
"""

import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np

from eunoe.data.loading import load
from eunoe.data.samples import DataSet, checksum
from eunoe.data.sources.npz import write_npz
from tests.attacks.damage import BINARY, TEXT

CHECKED = (".npz",)


@cache
def templates() -> dict[str, Path]:
    """A whole file or folder of each format."""
    home, rng = Path(tempfile.mkdtemp(prefix="fuzz-data-")), np.random.default_rng(0)
    x, y = rng.integers(0, 256, (40, 6, 6), np.uint8), np.arange(40) % 4
    arrays = {"x_train": x, "y_train": y, "x_test": x[:20], "y_test": y[:20]}
    write_npz(home / "mapped.npz", arrays)
    np.savez(home / "stored.npz", **arrays)
    np.savez_compressed(home / "compressed.npz", **arrays)
    reals = rng.normal(size=(40, 5))
    np.savez(home / "reals.npz", x_train=reals, y_train=y, x_test=reals, y_test=y)
    rows = ["a,b,color,label", *(f"{i},{i * 0.5},{'red' if i % 3 else 'blue'},{i % 4}" for i in range(40))]
    (home / "table.csv").write_text("\n".join(rows) + "\n")
    import gzip
    import lzma

    (home / "table.csv.gz").write_bytes(gzip.compress((home / "table.csv").read_bytes()))
    (home / "table.csv.xz").write_bytes(lzma.compress((home / "table.csv").read_bytes()))
    from pyarrow import csv, parquet

    parquet.write_table(csv.read_csv(home / "table.csv"), home / "table.parquet")
    from PIL import Image

    for suffix in ("png", "jpg"):
        for part in ("train", "test"):
            for label in range(3):
                folder = home / f"images-{suffix}" / part / f"class {label}"
                folder.mkdir(parents=True)
                for number in range(2):
                    Image.fromarray(x[label * 2 + number]).save(folder / f"{number}.{suffix}")
    return {path.name: path for path in sorted(home.iterdir())}


def read(path: Path) -> DataSet:
    """The data set of a file or folder."""
    if path.is_dir() or path.suffix == ".npz":
        return load(str(path))
    return load("table", path=path, label="label")


def data_case(rng: np.random.Generator, home: Path) -> tuple[str, Callable[[], str]]:
    """A data file with some damage, read."""
    import shutil

    names = list(templates())
    name = names[int(rng.integers(len(names)))]
    source, target = templates()[name], home / name
    if source.is_dir():
        shutil.copytree(source, target)
        files = sorted(path for path in target.rglob("*") if path.is_file())
        victim = files[int(rng.integers(len(files)))]
    else:
        shutil.copyfile(source, target)
        victim = target
    ways = TEXT if victim.suffix == ".csv" else BINARY
    way = ways[int(rng.integers(len(ways)))]
    victim.write_bytes(way(victim.read_bytes(), rng))

    def action() -> str:
        found, whole = read(target), read(source)
        same = checksum(found.train, found.test) == checksum(whole.train, whole.test)
        if same and found.class_names == whole.class_names:
            return "ran"
        return "silent" if target.suffix in CHECKED else "other"

    return f"{name}: {way.__name__}", action

"""Data sets as .npz files: mapped, checked, written whole."""

import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pytest

from eunoe.data.sources.npz import load_or_compute, npz, read_npz, write_npz
from eunoe.errors import InputError


def arrays(x_type=np.uint8):
    draw = np.random.default_rng(0)
    return {
        "x_train": draw.integers(0, 200, (50, 4, 4)).astype(x_type),
        "y_train": np.arange(50) % 3,
        "x_test": draw.integers(0, 200, (6, 4, 4)).astype(x_type),
        "y_test": np.arange(6) % 3,
    }


def mapped_from(path) -> list[tuple[int, int, str]]:
    """The parts of this process's memory that are mapped from the file: (start, end, permissions)."""
    found = []
    with open("/proc/self/maps") as maps:
        for line in maps:
            if line.rstrip().endswith(str(path)):
                addresses, permissions = line.split()[:2]
                start, end = (int(address, 16) for address in addresses.split("-"))
                found.append((start, end, permissions))
    return found


linux_only = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")


@linux_only
@pytest.mark.parametrize(
    ("save", "x_type"), [(np.savez, np.uint8), (write_npz, np.uint8), (write_npz, np.float64)]
)
def test_inputs_are_the_file_itself_not_a_copy(tmp_path, save, x_type):
    path, given = tmp_path / "mine.npz", arrays(x_type)
    save(path, given) if save is write_npz else save(path, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = npz(path)
    address = data.train.x.data_ptr()
    assert any(start <= address < end and "p" in how for start, end, how in mapped_from(path))
    for key, tensor in (("x_train", data.train.x), ("y_train", data.train.y), ("x_test", data.test.x)):
        assert np.array_equal(tensor.numpy(), given[key])
    assert data.name == "mine"


def test_a_change_in_memory_never_reaches_the_file(tmp_path):
    path = tmp_path / "mine.npz"
    write_npz(path, arrays())
    before = path.read_bytes()
    npz(path).train.x.fill_(7)
    assert path.read_bytes() == before


@linux_only
def test_odd_addresses_and_compressed_and_foreign_arrays_are_read(tmp_path):
    given = arrays(np.float64)
    np.savez(tmp_path / "odd.npz", **given)
    np.savez_compressed(tmp_path / "small.npz", **given)
    np.savez(tmp_path / "foreign.npz", **{**given, "x_train": given["x_train"].astype(">f8")})
    np.savez(tmp_path / "columns.npz", **{**given, "x_train": np.asfortranarray(given["x_train"])})
    for name in ("odd", "small", "foreign", "columns"):
        data = npz(tmp_path / f"{name}.npz")
        assert np.array_equal(data.train.x.numpy(), given["x_train"])
        assert data.train.x.data_ptr() % 8 == 0


def test_every_array_starts_at_a_multiple_of_64_bytes_and_numpy_reads_it(tmp_path):
    path, given = tmp_path / "new" / "mine.npz", {**arrays(), "class_names": np.array(["a", "bb", "c"])}
    write_npz(path, given)
    with np.load(path) as file:
        assert set(file.files) == set(given)
        for key in given:
            assert np.array_equal(file[key], given[key])
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
    for array in read_npz(path).values():
        assert array.ctypes.data % 64 == 0
    assert npz(path).class_names == ("a", "bb", "c")


def test_equal_arrays_give_equal_files(tmp_path):
    for name in "ab":
        write_npz(tmp_path / f"{name}.npz", arrays())
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "mine.npz"
    write_npz(path, arrays())
    before = path.read_bytes()
    with pytest.raises(ValueError, match="Object arrays"):
        write_npz(path, {**arrays(), "y_test": np.array([None])})
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@linux_only
def test_processes_that_load_the_same_file_share_its_memory(tmp_path):
    path, size = tmp_path / "large.npz", 40_000_000
    x = np.ones((size // 1000, 1000), np.uint8)
    np.savez(path, x_train=x, y_train=np.arange(len(x)) % 2, x_test=x[:2], y_test=[0, 1])
    own_memory = """
import sys
from eunoe.data.sources.npz import npz
def anonymous():
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if "RssAnon" in line)
from pathlib import Path
small = npz(Path(sys.argv[2]))
before = anonymous()
data = npz(Path(sys.argv[1]))
assert sum(int(part.sum()) for part in data.train.x.split(50)) == data.train.x.numel()
print(anonymous() - before)
"""
    np.savez(tmp_path / "small.npz", x_train=x[:2], y_train=[0, 1], x_test=x[:2], y_test=[0, 1])
    command = [sys.executable, "-c", own_memory, str(path), str(tmp_path / "small.npz")]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert int(out) < 0.2 * size


def test_writers_may_be_left_out_or_given(tmp_path):
    path = tmp_path / "mine.npz"
    np.savez(path, **arrays(), writer_train=np.arange(50) // 10)
    data = npz(path)
    assert data.writers_train.tolist() == [i // 10 for i in range(50)]
    assert data.writers_test is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_test": None, "y_test": None}, "mine.npz: x_test, y_test missing; it must have x_train, y_train"),
        (
            {"writers_train": np.zeros(50)},
            "mine.npz: unknown array 'writers_train'; did you mean 'writer_train'",
        ),
        ({"y_train": np.arange(50) % 3 + 1}, "mine.npz: labels go up to 3, but"),
        (
            {"y_train": np.arange(50.0)},
            r"mine.npz: y_train has whole numbers as float64: use integers for classes",
        ),
        ({"x_train": np.array([None] * 50)}, "mine.npz: x_train.npy is not a plain array .*Object arrays"),
    ],
)
def test_errors_name_the_file(tmp_path, changes, message):
    given = {key: array for key, array in {**arrays(), **changes}.items() if array is not None}
    if "y_train" in changes and given["y_train"].dtype == np.int64:
        given["y_test"] = np.array([1, 2, 3, 1, 2, 3])
    np.savez(tmp_path / "mine.npz", **given)
    with pytest.raises(InputError, match=message):
        npz(tmp_path / "mine.npz")


def test_no_file_no_zip_and_half_a_zip(tmp_path):
    with pytest.raises(InputError, match=r"there is no file .*mine.npz"):
        npz(tmp_path / "mine.npz")
    (tmp_path / "mine.npz").write_bytes(b"x,y\n1,2\n")
    with pytest.raises(InputError, match=r"mine.npz is not a readable .npz file .*with numpy.savez"):
        npz(tmp_path / "mine.npz")
    np.savez(tmp_path / "whole.npz", **arrays())
    (tmp_path / "half.npz").write_bytes((tmp_path / "whole.npz").read_bytes()[:600])
    with pytest.raises(InputError, match=r"half.npz is not a readable .npz file"):
        npz(tmp_path / "half.npz")
    with zipfile.ZipFile(tmp_path / "text.npz", "w") as archive:
        archive.writestr("x_train.npy", "hello, I am no array")
    with pytest.raises(InputError, match=r"text.npz: x_train.npy is not a plain array"):
        npz(tmp_path / "text.npz")


def test_arrays_are_computed_once_if_they_can_be_cached(tmp_path, caplog):
    calls = []

    def compute():
        calls.append(1)
        return {"x": np.arange(3)}

    for _ in range(2):
        assert load_or_compute(tmp_path / "cache" / "a.npz", compute)["x"].tolist() == [0, 1, 2]
    assert len(calls) == 1
    (tmp_path / "file").write_text("")
    assert load_or_compute(tmp_path / "file" / "a.npz", compute)["x"].tolist() == [0, 1, 2]
    assert "not cached: cannot write" in caplog.text

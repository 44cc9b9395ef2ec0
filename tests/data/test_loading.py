"""Data sets by whatever a config calls them, and the list of them."""

import dataclasses
import hashlib

import numpy as np
import pytest

from eunoe.config import registry
from eunoe.data.builtin import SPECS, TABLES, digits
from eunoe.data.loading import EMBEDDED, entries, entry, fetch, load, resolve
from eunoe.data.samples import DataSet, checksum
from eunoe.data.sources.npz import npz, write_npz
from eunoe.errors import InputError
from tests.data.fake_hub import COMMIT, FakeHub, parquet, pictures
from tests.data.sources.test_folder import put


def own_data(*, size: int = 2) -> DataSet:
    """A data set of the user's own code."""
    from eunoe.data.arrays import from_arrays

    x, y = np.zeros((size, 3)), np.arange(size)
    return from_arrays(x, y, x, y)


def no_data() -> int:
    """No data set at all."""
    return 3


@pytest.mark.parametrize("name", ["patients.csv", "some/patients.parquet", "patients.npz"])
def test_a_missing_file_says_that_it_is_missing(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=f"there is no file {name}; name an existing one"):
        load(name)


def test_names_stand_for_what_they_look_like(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pictures").mkdir()
    assert resolve("mnist", {}) == ("mnist", {})
    assert resolve("hf:me/cats", {"label": "y"}) == ("hub", {"repo": "me/cats", "label": "y"})
    assert resolve("some/where.npz", {}) == ("npz", {"path": "some/where.npz"})
    assert resolve("./pictures", {"size": 8}) == ("folder", {"path": "./pictures", "size": 8})
    assert resolve("pictures", {}) == ("pictures", {})
    assert resolve("my.module:data", {}) == ("my.module:data", {})
    with pytest.raises(
        InputError, match="data set 'hf:me/cats': the option 'repo' is already set by the name"
    ):
        resolve("hf:me/cats", {"repo": "x"})


def test_files_folders_and_own_functions_are_loaded(tmp_path):
    x, y = np.zeros((4, 3), np.float32), np.arange(4)
    np.savez(tmp_path / "mine.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    assert load(str(tmp_path / "mine.npz")).classes == 4
    assert load(str(tmp_path / "mine.npz"), classes=9).classes == 9
    put(tmp_path, "train/a/1.png", 1)
    put(tmp_path, "test/a/1.png", 1)
    assert tuple(load(str(tmp_path), size=[4, 6]).train.x.shape) == (1, 4, 6, 3)
    assert load("tests.data.test_loading:own_data", size=5).classes == 5


def test_wrong_options_are_named(tmp_path):
    with pytest.raises(InputError, match="data set 'digits' has no option 'size'"):
        load("digits", size=3)
    with pytest.raises(InputError, match=r"'hub'.*held_out.*less than 100"):
        load("hf:me/cats", held_out=100)
    with pytest.raises(InputError, match=r"'folder'.*mode.*'L' or 'RGB'"):
        load(f"{tmp_path}/", mode="gray")
    with pytest.raises(InputError, match="returned a int, not an eunoe DataSet"):
        load("tests.data.test_loading:no_data")


def test_a_missing_folder_is_reported_as_such(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("./pictures/", "some/where"):
        with pytest.raises(InputError, match=f"there is no folder {name}"):
            load(name)
    with pytest.raises(InputError, match="no data set is called 'pictures'"):
        load("pictures")


def test_every_registered_data_set_can_be_found_and_has_a_summary():
    for name in registry.names("data_set"):
        assert registry.summary("data_set", name)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path))
    return tmp_path


def arrays(count=10):
    y = np.arange(count) % 10
    x = np.arange(count * 784, dtype=np.uint8).reshape(count, 28, 28)
    return {"x_train": x, "y_train": y, "x_test": x[:5], "y_test": y[:5]}


def test_the_checksum_is_that_of_the_bytes_however_they_are_stored(tmp_path):
    given = arrays()
    expected = hashlib.sha256(b"".join(given[key].tobytes() for key in given)).hexdigest()
    np.savez_compressed(tmp_path / "a.npz", **{**given, "y_train": given["y_train"].astype(np.uint8)})
    write_npz(tmp_path / "b.npz", {**given, "writer_train": np.zeros(10, np.int64)})
    stored = [npz(tmp_path / name) for name in ("a.npz", "b.npz")]
    assert [checksum(data.train, data.test) for data in stored] == [expected, expected]


def test_what_is_here_and_what_is_not(folder, monkeypatch):
    write_npz(folder / "mnist.npz", arrays())
    write_npz(folder / "mine.npz", {**arrays(20), "writer_train": np.arange(20) // 4})
    (folder / "broken.npz").write_bytes(b"?")
    rows = {row["data set"]: row for row in entries()}
    assert list(rows) == [*EMBEDDED, *SPECS, *TABLES, "broken", "mine"]
    embedded = digits()
    assert rows["digits"] == {
        "data set": "digits",
        "train": "1,442",
        "test": "355",
        "classes": "10",
        "SHA-256": checksum(embedded.train, embedded.test)[:12],
        "description": "scikit-learn",
    }
    mnist = rows["mnist"]
    assert [mnist[key] for key in ("train", "test", "classes")] == ["10", "5", "10"]
    assert mnist["MB"] == f"{(folder / 'mnist.npz').stat().st_size / 1e6:.1f}"
    assert mnist["description"] == "not the official arrays"
    assert (rows["mine"]["clients"], rows["mine"]["description"]) == ("5", "")
    assert "broken.npz is not a readable .npz file" in rows["broken"]["description"]
    assert rows["cinic10"] == {
        "data set": "cinic10",
        "train": "180,000",
        "test": "90,000",
        "classes": "10",
        "SHA-256": "not downloaded",
        "description": "flwrlabs/cinic10",
    }
    stored = npz(folder / "mnist.npz")
    known = dataclasses.replace(SPECS["mnist"], sha256=checksum(stored.train, stored.test))
    monkeypatch.setitem(SPECS, "mnist", known)
    assert entry("mnist")["description"] == "official"


def test_fetching_keeps_what_is_here_unless_forced(folder, monkeypatch):
    monkeypatch.setitem(SPECS, "mnist", dataclasses.replace(SPECS["mnist"], rows=(2, 2), sha256=None))
    file = parquet({"image": pictures([np.full((28, 28), i, np.uint8) for i in range(2)]), "label": [0, 1]})
    client = FakeHub({f"mnist/{part}/0000.parquet": file for part in ("train", "test")})
    with client.serving():
        got = fetch("mnist")
        assert (got["train"], got["description"]) == ("2", f"ylecun/mnist@{COMMIT[:12]}")
        fetch("mnist")
        assert len(client.requests) == 1
        with pytest.raises(
            InputError, match="not other; replace it with: eunoe data fetch mnist --revision other --force"
        ):
            fetch("mnist", revision="other")
        fetch("mnist", revision="other", force=True)
    assert client.requests[1] == ("ylecun/mnist", "other")


def test_names_that_cannot_be_fetched(folder):
    with pytest.raises(InputError, match="digits comes with scikit-learn"):
        fetch("digits")
    with pytest.raises(InputError, match="unknown data set 'mnits'; did you mean 'mnist'"):
        fetch("mnits")

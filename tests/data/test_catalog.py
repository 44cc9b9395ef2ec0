"""The catalog of data sets."""

import dataclasses
import hashlib

import numpy as np
import pytest

from eunoe.data.builtin import SPECS, TABLES, digits
from eunoe.data.catalog import EMBEDDED, entries, entry, fetch
from eunoe.data.samples import checksum
from eunoe.data.sources.npz import npz, write_npz
from eunoe.errors import InputError
from tests.data.fake_hub import COMMIT, FakeHub, parquet, pictures


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

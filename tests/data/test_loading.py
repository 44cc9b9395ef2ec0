"""Data sets by whatever a config calls them."""

import numpy as np
import pytest

from eunoe.config import registry
from eunoe.data.loading import load, resolve
from eunoe.data.samples import DataSet
from eunoe.errors import InputError
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

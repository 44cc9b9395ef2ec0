"""Runs below folders, and which of them are seeds of one setting."""

import pytest

from eunoe.errors import InputError
from eunoe.store.groups import find_folders, read_runs
from tests.store.test_reader import write


def test_seeds_share_a_label_and_other_settings_do_not(tmp_path):
    same = [write(tmp_path / f"s{seed}", f"seed = {seed}\n") for seed in (0, 1)]
    default = write(tmp_path / "default", "seed = 2\nparticipation = 0.1\n")
    other = write(tmp_path / "longer", "rounds = 77\n")
    labels = [run.label for run in read_runs([*same, default, other])]
    assert labels[0] == labels[1] == labels[2]
    assert labels[3] == f"{labels[0]} (longer)"


def test_runs_are_found_by_what_they_recorded(tmp_path):
    app = tmp_path / "app"
    app.mkdir()
    (app / "config.toml").write_text("rounds = 5\n")
    with pytest.raises(InputError, match="app holds no run"):
        find_folders([app])
    watched, begun = write(app / "run"), tmp_path / "begun"
    begun.mkdir()
    for name in ("config.toml", "status.json"):
        (begun / name).touch()
    assert find_folders([app, tmp_path]) == [watched, watched, begun]

"""Paths of a config made absolute."""

from pathlib import Path

import pytest

from eunoe.config.paths import placed


def test_paths_become_absolute_and_names_stay(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.npz", "start.pt"):
        (tmp_path / name).touch()
    (tmp_path / "pictures").mkdir()
    values = {"data": {"name": "npz", "path": "a.npz"}, "model": {"name": "mlp", "start_from": "./start.pt"}}
    assert placed(values) == {
        "data": {"name": "npz", "path": str(tmp_path / "a.npz")},
        "model": {"name": "mlp", "start_from": str(tmp_path / "start.pt")},
    }
    assert placed({"data": "./pictures"}) == {"data": str(tmp_path / "pictures")}
    assert placed({"public": {"data": {"name": "b.npz"}}}) == {
        "public": {"data": {"name": str(tmp_path / "b.npz")}}
    }
    for same in (
        {"data": "pictures", "seed": 3},
        {"data": {"name": "mine:load", "path": "s3://far/away"}},
        {"data": {"name": "mine:load", "path": 3}, "model": {"name": "mlp", "start_from": None}},
        {"public": {"share": 0.1, "data": None}},
    ):
        assert placed(same) == same

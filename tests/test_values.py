"""Values of a config put over one another, and their paths made absolute."""

from pathlib import Path

import pytest

from eunoe.values import merge, placed


def test_changes_are_put_over_option_by_option() -> None:
    base = {"seed": 1, "training": {"lr": 0.1, "epochs": 2}, "loss": "fedlc", "shift": None}
    merged = merge(
        base, {"training": {"lr": 0.5}, "loss": {"tau": 2}}, {"seed": 3, "shift": {"kind": "noise"}}
    )
    assert merged == {
        "seed": 3,
        "training": {"lr": 0.5, "epochs": 2},
        "loss": {"name": "fedlc", "tau": 2},
        "shift": {"kind": "noise"},
    }
    assert base["training"] == {"lr": 0.1, "epochs": 2}


def test_what_has_a_name_replaces_what_was_there() -> None:
    base = {"loss": {"name": "fedlc", "tau": 2}, "track": [{"name": "wandb"}]}
    assert merge(base, {"loss": {"name": "wsm"}})["loss"] == {"name": "wsm"}
    assert merge(base, {"loss": {"name": "fedlc"}})["loss"] == {"name": "fedlc"}
    assert merge(base, {"loss": "fedlc"})["loss"] == "fedlc"
    assert merge(base, {"track": {"offline": True}})["track"] == {"offline": True}


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

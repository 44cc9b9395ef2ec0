"""Values of a config: --set, merging, and absolute paths."""

from pathlib import Path

import pytest

from eunoe.config.settings import absolute_paths, apply_settings, flatten, merge, parse_value, read_config
from eunoe.errors import InputError


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is empty"),
        (b"  \n# nothing but this\n", "is empty"),
        (b"rounds = ", "is not valid TOML"),
        (b"rounds = 1\nrounds = 2", "is not valid TOML"),
        (b"[training]\nlr = 1\n[training]\nlr = 2", "is not valid TOML"),
        (b"\xff\xfe\x00\x01", "is not text in UTF-8"),
        (None, "cannot read"),
    ],
)
def test_files_that_hold_no_configuration(tmp_path: Path, content: bytes | None, says: str) -> None:
    path = tmp_path / "c.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InputError, match=says) as caught:
        read_config(path)
    assert "\n" not in str(caught.value)


def test_a_folder_is_no_config_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is a folder, not a file"):
        read_config(tmp_path)


def test_a_file_is_read_as_utf8_with_or_without_a_mark(tmp_path: Path) -> None:
    (tmp_path / "plain.toml").write_bytes('name = "Größe 猫"'.encode())
    (tmp_path / "marked.toml").write_bytes('name = "Größe 猫"'.encode("utf-8-sig"))
    assert (
        read_config(tmp_path / "plain.toml") == read_config(tmp_path / "marked.toml") == {"name": "Größe 猫"}
    )


def test_settings_on_top_are_read_as_toml_or_as_text() -> None:
    values = {"training": {"lr": 0.1, "epochs": 2}, "loss": "ce"}
    settings = [
        "training.lr=0.5",
        "loss.tau=2",
        "name=two words",
        "model.hidden=[3, 4]",
        "stop.target = 1e-1",
    ]
    assert apply_settings(values, settings) == {
        "training": {"lr": 0.5, "epochs": 2},
        "loss": {"name": "ce", "tau": 2},
        "name": "two words",
        "model": {"hidden": [3, 4]},
        "stop": {"target": 0.1},
    }
    assert values == {"training": {"lr": 0.1, "epochs": 2}, "loss": "ce"}


def test_another_name_drops_the_options_of_what_was_named_before() -> None:
    values = {"loss": {"name": "fedlc", "tau": 2}}
    assert apply_settings(values, ["loss.name=wsm"]) == {"loss": {"name": "wsm"}}
    assert apply_settings(values, ["loss.name=fedlc"]) == values


@pytest.mark.parametrize("setting", ["rounds", "=3", " =3", "seed.x=1", "seed.x.y=1"])
def test_settings_that_are_none(setting: str) -> None:
    with pytest.raises(InputError):
        apply_settings({"seed": 3}, [setting])


def test_a_value_that_is_not_toml_is_text() -> None:
    assert [parse_value(text) for text in ("1", "1.0", "true", '"1"', "wsm", "a b ", "[1", "")] == [
        1,
        1.0,
        True,
        "1",
        "wsm",
        "a b",
        "[1",
        "",
    ]


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
    assert absolute_paths(values) == {
        "data": {"name": "npz", "path": str(tmp_path / "a.npz")},
        "model": {"name": "mlp", "start_from": str(tmp_path / "start.pt")},
    }
    assert absolute_paths({"data": "./pictures"}) == {"data": str(tmp_path / "pictures")}
    assert absolute_paths({"public": {"data": {"name": "b.npz"}}}) == {
        "public": {"data": {"name": str(tmp_path / "b.npz")}}
    }
    for same in (
        {"data": "pictures", "seed": 3},
        {"data": {"name": "mine:load", "path": "s3://far/away"}},
        {"data": {"name": "mine:load", "path": 3}, "model": {"name": "mlp", "start_from": None}},
        {"public": {"share": 0.1, "data": None}},
    ):
        assert absolute_paths(same) == same


def test_nested_values_are_flattened_to_paths() -> None:
    values = {
        "seed": 1,
        "training": {"lr": 0.1, "schedule": {"name": "step"}},
        "probes": [{"at": 1}],
        "stop": {},
    }
    assert flatten(values) == {
        "seed": 1,
        "training.lr": 0.1,
        "training.schedule.name": "step",
        "probes": [{"at": 1}],
    }

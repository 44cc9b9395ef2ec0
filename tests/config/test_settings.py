"""Values of a config: --set, merging, absolute paths, renamed keys, and TOML that reads back as it was."""

import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eunoe import InputError
from eunoe.config.schema import make_config
from eunoe.config.settings import (
    absolute_paths,
    apply_settings,
    flatten,
    merge,
    parse_value,
    read_config,
    rename_keys,
    to_toml,
)


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


def test_stored_configs_get_the_new_names() -> None:
    stored: dict[str, object] = {"merge": {"name": "median"}, "seed": 1}
    stored["secure_aggregation"] = {"most_samples": 9}
    stored["engine"] = {"name": "ray", "summers": 4}
    assert rename_keys(stored) == {
        "aggregation": {"name": "median"},
        "secure_aggregation": {"max_samples": 9},
        "seed": 1,
        "engine": {"name": "ray"},
    }


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"merge": "median"}, "'merge' is now 'aggregation'"),
        (
            {"secure_aggregation": {"most_samples": 9}},
            "'secure_aggregation.most_samples' is now 'secure_aggregation.max_samples'",
        ),
    ],
)
def test_other_configs_are_refused(values: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_config(values)


# A lone surrogate is no character and has no place in a file.
texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalars = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | texts
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(texts, values, max_size=4))
def test_any_values_come_back(data: dict[str, object]) -> None:
    assert tomllib.loads(to_toml(data)) == data


def test_special_numbers_and_nothing() -> None:
    back = tomllib.loads(to_toml({"a": math.inf, "b": -math.inf, "n": math.nan, "none": None, "t": (1, 2)}))
    assert math.isnan(back.pop("n"))
    assert back == {"a": math.inf, "b": -math.inf, "t": [1, 2]}


def test_numpy_floats_are_written_as_numbers() -> None:
    assert to_toml({"a": np.float64(0.1)}) == "a = 0.1\n"


def test_sections_come_after_plain_values() -> None:
    assert to_toml({"s": {"x": 1, "in": {"y": None, "z": "ä"}}, "p": True}) == (
        'p = true\n\n[s]\nx = 1\nin = {z = "ä"}\n'
    )

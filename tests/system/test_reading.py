"""The guarded readers: one clear line for whatever a file holds."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from eunoe.errors import Damaged, InputError
from eunoe.system.files import read_json, read_lines, read_text, read_toml
from eunoe.system.tensor_files import digest, read_tensors


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"a": ' + b"9" * 10_000 + b"}", "is not JSON"),
        (b"[1]", "is not a JSON object"),
        (b"\xff\xfe", "is not text in UTF-8"),
    ],
)
def test_what_is_no_json_object_is_named(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(Damaged, match=rf"a\.json {says}"):
        read_json(tmp_path / "a.json")


def test_a_file_that_is_not_there_is_empty_and_a_folder_is_none(tmp_path: Path) -> None:
    assert read_json(tmp_path / "a.json") == {}
    assert read_lines(tmp_path / "a.jsonl") == []
    for read in (read_json, read_lines, read_text, read_toml, read_tensors):
        with pytest.raises(Damaged, match="is a folder, not a file"):
            read(tmp_path)


def test_strings_are_shown_without_control_characters(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"na\\u001bme": ["\\ud800", {"b": "caf\\u00e9\\u009b"}], "n": 1}')
    assert read_json(tmp_path / "a.json") == {"na\\x1bme": ["\\ud800", {"b": "café\\x9b"}], "n": 1}


def test_lines_are_named_by_number(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text('{"round": 1}\n{"round"\n{"round": 3}\n')
    with pytest.raises(Damaged, match=r"line 2 of .*a\.jsonl is not JSON"):
        read_lines(path)
    path.write_text('{"round": 1}\n[]\n')
    with pytest.raises(Damaged, match=r"line 2 of .*a\.jsonl is not a JSON object"):
        read_lines(path)
    path.write_text('{"round": 1}\n{"schema": 2}\n')
    with pytest.raises(InputError, match="has schema 2"):
        read_lines(path)


def test_deep_toml_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("a = " + "[" * 5000)
    with pytest.raises(Damaged, match="is not valid TOML"):
        read_toml(tmp_path / "a.toml")


def test_the_digest_is_of_names_types_shapes_and_values(tmp_path: Path) -> None:
    tensors = {"a": torch.arange(4.0), "b": torch.tensor(1), "c": torch.empty(0, 3)}
    save_file(tensors, tmp_path / "a.safetensors", {"facts": "x"})
    read, metadata = read_tensors(tmp_path / "a.safetensors")
    assert metadata == {"facts": "x"}
    known = digest(read, "x")
    assert known == digest(dict(reversed(tensors.items())), "x")
    others = [
        {**tensors, "a": torch.arange(4.0).reshape(2, 2)},
        {**tensors, "a": torch.arange(4.0).view(torch.int32)},
        {**tensors, "a": -torch.arange(4.0)},
        {**tensors, "d": torch.empty(0)},
    ]
    assert known not in {digest(other, "x") for other in others} | {digest(tensors, "y")}

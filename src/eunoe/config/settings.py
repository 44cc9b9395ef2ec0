"""Config values before validation: reading and writing TOML, applying --set, merging, absolute paths."""

import copy
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from eunoe.errors import InputError, RunFailed
from eunoe.system.files import read_toml

# Dotted paths of version 0.1 and the new name of their last part.
RENAMED = {"merge": "aggregation", "secure_aggregation.most_samples": "max_samples"}
# Options of version 0.1 that no longer exist; results do not depend on them.
REMOVED = {"engine.summers"}
# Functions of version 0.1 that a config may name, and where they are now.
MOVED = {"eunoe.papers.part:part": "eunoe_papers.part:part"}


def read_config(path: Path) -> dict[str, Any]:
    """Read the values of a TOML file."""
    try:
        values = read_toml(path)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"cannot read {path}: No such file or directory") from None
    except RunFailed as error:
        raise InputError(str(error)) from None
    if not values:
        raise InputError(f"{path} is empty: leave it out to run the defaults")
    return values


def read_stored_config(path: Path) -> dict[str, Any]:
    """Read a config that an earlier version may have written, with the keys of this version."""
    return rename_keys(read_config(path))


def apply_settings(values: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """Return the values with settings `a.b=c` applied (c is TOML or text); a new `name` drops old options."""
    result = copy.deepcopy(dict(values))
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path.strip():
            raise InputError(f"{setting!r} is not a setting: write it as section.option=value")
        *parents, last = path.strip().split(".")
        place = result
        for parent in parents:
            inner = place.get(parent)
            place[parent] = inner = (
                {"name": inner} if isinstance(inner, str) else ({} if inner is None else inner)
            )
            if not isinstance(inner, dict):
                raise InputError(f"cannot apply {setting!r}: {parent} is {inner!r}, not a section")
            place = inner
        value = parse_value(text)
        if last == "name" and parents and place.get("name") != value:
            place.clear()
        place[last] = value
    return result


def parse_value(text: str) -> Any:
    """Parse a value as TOML; anything else is text."""
    try:
        values = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text.strip()
    if len(values) > 1:
        raise InputError(f"{text!r} has several lines: a setting takes one value")
    return values["value"]


def merge(base: Mapping[str, Any], *changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with changes merged in; a section with a `name` replaces the earlier section."""
    merged = dict(base)
    for change in changes:
        for key, value in change.items():
            old = merged.get(key)
            old = {"name": old} if isinstance(old, str) else old
            if isinstance(old, Mapping) and isinstance(value, Mapping) and "name" not in value:
                merged[key] = merge(old, value)
            else:
                merged[key] = value
    return merged


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested values by their paths, such as `training.lr`."""
    flat: dict[str, Any] = {}
    for key, value in values.items():
        flat |= flatten(value, f"{prefix}{key}.") if isinstance(value, Mapping) else {f"{prefix}{key}": value}
    return flat


def path_kind(name: str) -> str:
    """Return the data set that reads this path; empty for other names."""
    if name.endswith(".npz"):
        return "npz"
    if name.endswith((".csv", ".csv.gz", ".csv.xz", ".csv.bz2", ".parquet")):
        return "table"
    # A plain word is a name, even if a folder has that name; ./word is the folder.
    is_path = "/" in name or "\\" in name or name in (".", "..")
    return "folder" if is_path and os.path.isdir(os.path.expanduser(name)) else ""


def absolute_paths(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values with absolute paths of data and initial weights."""
    result = dict(values)
    for key in {"data", "model", "backbone"} & values.keys():
        result[key] = _absolute_section(values[key])
    if isinstance(public := values.get("public"), Mapping) and "data" in public:
        result["public"] = {**public, "data": _absolute_section(public["data"])}
    if isinstance(sets := values.get("retain"), list | tuple):
        result["retain"] = [{**each, "data": _absolute_section(each["data"])} for each in sets]
    return result


def _absolute_section(section: Any) -> Any:
    if isinstance(section, str):
        return _absolute(section) if path_kind(section) else section
    if not isinstance(section, Mapping):
        return section
    # The `path` option of a user's own data set may be a URL.
    files = {
        key: _absolute(value)
        for key in ("path", "start_from", "from", "tokenizer", "encoding")
        if isinstance(value := section.get(key), str)
        and (key == "start_from" or os.path.exists(os.path.expanduser(value)))
    }
    return {**section, **({"name": _absolute_section(section["name"])} if "name" in section else {}), **files}


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().resolve())


def rename_keys(values: Mapping[str, Any], parents: str = "") -> dict[str, Any]:
    """Return a stored config with the current names of its keys; elsewhere an error gives the new name."""
    renamed = {}
    for key, value in values.items():
        path = f"{parents}{key}"
        if path in REMOVED:
            continue
        inner = rename_keys(value, f"{path}.") if isinstance(value, Mapping) else value
        inner = MOVED.get(inner, inner) if isinstance(inner, str) else inner
        renamed[RENAMED.get(path, key)] = inner
    return renamed


def to_toml(values: Mapping[str, Any]) -> str:
    """Format nested values as TOML; None is left out."""
    plain, tables = [], []
    for key, value in values.items():
        if isinstance(value, Mapping):
            tables.append(f"\n[{_key(key)}]\n" + "".join(_line(k, v) for k, v in value.items()))
        else:
            plain.append(_line(key, value))
    return "".join(plain + tables)


def _line(key: str, value: Any) -> str:
    return "" if value is None else f"{_key(key)} = {inline(value)}\n"


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else inline(key)


def inline(value: Any) -> str:
    """Format a value in one line."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        # NumPy numbers have another repr.
        return repr(float(value) if isinstance(value, float) else int(value))
    if isinstance(value, list | tuple):
        return f"[{', '.join(inline(item) for item in value)}]"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(k)} = {inline(v)}" for k, v in value.items() if v is not None) + "}"
    return f'"{"".join(_escape(character) for character in str(value))}"'


def _escape(character: str) -> str:
    if character in '"\\':
        return f"\\{character}"
    return character if character.isprintable() else f"\\U{ord(character):08x}"

"""Paths in a config: which names are paths, and making them absolute."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def path_kind(name: str) -> tuple[str, str]:
    """The data set that reads this path, and its option for the path; empty for other names."""
    if name.endswith(".npz"):
        return "npz", "path"
    if name.endswith((".csv", ".csv.gz", ".csv.xz", ".csv.bz2", ".parquet")):
        return "table", "path"
    # A plain word is a name even if a folder of that name exists; ./word is the folder.
    if Path(name).expanduser().is_dir() and ("/" in name or "\\" in name or name in (".", "..")):
        return "folder", "path"
    return "", ""


def placed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with absolute paths of data and initial weights, valid from any folder."""
    result = {
        **values,
        **{key: _placed(values[key]) for key in ("data", "model", "backbone") if key in values},
    }
    if isinstance(public := values.get("public"), Mapping) and "data" in public:
        result["public"] = {**public, "data": _placed(public["data"])}
    return result


def _placed(section: Any) -> Any:
    if isinstance(section, str):
        return _absolute(section) if path_kind(section)[0] else section
    if not isinstance(section, Mapping):
        return section
    # The `path` option of a user's own data set may be a URL.
    files = {
        key: _absolute(value)
        for key in ("path", "start_from", "from", "tokenizer")
        if isinstance(value := section.get(key), str)
        and (key == "start_from" or os.path.exists(os.path.expanduser(value)))
    }
    return {**section, **({"name": _placed(section["name"])} if "name" in section else {}), **files}


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().resolve())

"""Paths in a config: which names are paths, and how they hold in any folder."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def path_kind(name: str) -> tuple[str, str]:
    """The data set that reads what lies at this path, and its option for it; empty for other names."""
    if name.endswith(".npz"):
        return "npz", "path"
    if name.endswith((".csv", ".csv.gz", ".csv.xz", ".csv.bz2", ".parquet")):
        return "table", "path"
    # A plain word is a name even if a folder of that name lies here; ./word is the folder.
    if Path(name).expanduser().is_dir() and ("/" in name or "\\" in name or name in (".", "..")):
        return "folder", "path"
    return "", ""


def placed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with absolute paths of data and of what a model starts from, which hold in any folder."""
    result = {**values, **{key: _placed(values[key]) for key in ("data", "model") if key in values}}
    if isinstance(public := values.get("public"), Mapping) and "data" in public:
        result["public"] = {**public, "data": _placed(public["data"])}
    return result


def _placed(section: Any) -> Any:
    if isinstance(section, str):
        return _absolute(section) if path_kind(section)[0] else section
    if not isinstance(section, Mapping):
        return section
    # The `path` of a data set of the user's own code may be an address.
    files = {
        key: _absolute(value)
        for key in ("path", "start_from")
        if isinstance(value := section.get(key), str)
        and (key == "start_from" or os.path.exists(os.path.expanduser(value)))
    }
    return {**section, **({"name": _placed(section["name"])} if "name" in section else {}), **files}


def _absolute(path: str) -> str:
    return str(Path(path).expanduser().resolve())

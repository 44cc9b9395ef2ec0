"""Nested values of a config before they are checked: put over one another, and their paths made absolute."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eunoe.data.loading import is_path


def merge(base: Mapping[str, Any], *changes: Mapping[str, Any]) -> dict[str, Any]:
    """The values with changes put over them; a section that has a `name` replaces the one before."""
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


def placed(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with absolute paths of data and of what a model starts from, which hold in any folder."""
    result = {**values, **{key: _placed(values[key]) for key in ("data", "model") if key in values}}
    if isinstance(public := values.get("public"), Mapping) and "data" in public:
        result["public"] = {**public, "data": _placed(public["data"])}
    return result


def _placed(section: Any) -> Any:
    if isinstance(section, str):
        return _absolute(section) if is_path(section) else section
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

"""Loading a data set by its name in a config: built in, a file, a folder, hf:owner/name, or your own code."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eunoe.config import registry
from eunoe.config.settings import path_kind
from eunoe.data.samples import DataSet
from eunoe.errors import InputError


def resolve(name: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the registered name and options: npz, table or folder for a path, hub for hf:owner/name."""
    if name.startswith("hf:"):
        reader, option, value = "hub", "repo", name.removeprefix("hf:")
    else:
        reader, option, value = path_kind(name), "path", name
    if not reader:
        return name, dict(options)
    if option in options:
        raise InputError(f"data set {name!r}: the option {option!r} is already set by the name")
    return reader, {option: value, **options}


def load(name: str, **options: Any) -> DataSet:
    """Load the data set of this name, path or hub address, with these options."""
    if ("/" in name or "\\" in name) and ":" not in name and not path_kind(name):
        raise InputError(f"there is no folder {name}; your own data set is a folder or a .npz file")
    if path_kind(name) in ("npz", "table") and not Path(name).expanduser().exists():
        raise InputError(f"there is no file {name}; name an existing one, or its full path")
    name, options = resolve(name, options)
    data = registry.build("data_set", name, options)
    if not isinstance(data, DataSet):
        raise InputError(f"data set {name!r} returned a {type(data).__name__}, not an eunoe DataSet")
    return data

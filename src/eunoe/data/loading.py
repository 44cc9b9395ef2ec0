"""Loading a data set by its name in a config: built in, a file, a folder, hf:owner/name, or your own code."""

from collections.abc import Mapping
from typing import Any

from eunoe.config import registry
from eunoe.config.settings import path_kind
from eunoe.data.samples import DataSet
from eunoe.errors import InputError


def resolve(name: str, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return the registered name and options for a name in a config.

    A path to a .npz is `npz`, a path to a folder is `folder`, hf:owner/name is `hub`; others are unchanged.
    """
    for prefix, registered, option in (("hf:", "hub", "repo"), ("", *path_kind(name))):
        if registered and name.startswith(prefix):
            if option in options:
                raise InputError(f"data set {name!r}: the option {option!r} is already set by the name")
            return registered, {option: name.removeprefix(prefix), **options}
    return name, dict(options)


def load(name: str, **options: Any) -> DataSet:
    """Load the data set of this name, path or hub address, with these options."""
    if ("/" in name or "\\" in name) and ":" not in name and not path_kind(name)[0]:
        raise InputError(f"there is no folder {name}; your own data set is a folder or a .npz file")
    name, options = resolve(name, options)
    data = registry.build("data_set", name, options)
    if not isinstance(data, DataSet):
        raise InputError(
            f"data set {name!r} returned a {type(data).__name__}; it must return an eunoe DataSet"
        )
    return data

"""Values of a config before they are validated: read from a TOML file, changed by --set."""

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from eunoe.errors import InputError, RunFailed
from eunoe.system.files import read_toml


def read_config(path: Path) -> dict[str, Any]:
    """The values in a TOML file."""
    try:
        values = read_toml(path)
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"cannot read {path}: No such file or directory") from None
    except RunFailed as error:
        raise InputError(str(error)) from None
    if not values:
        raise InputError(f"{path} is empty; leave it out to run the defaults")
    return values


def apply_settings(values: Mapping[str, Any], settings: Iterable[str]) -> dict[str, Any]:
    """Values with `a.b=c` settings on top; c is read as TOML, or else as text.

    Setting a `name` to another one drops the options of the earlier component.
    """
    result = _copy(values)
    for setting in settings:
        path, equals, text = setting.partition("=")
        if not equals or not path.strip():
            raise InputError(f"{setting!r} is not a setting; write it as section.option=value")
        *parents, last = path.strip().split(".")
        place = result
        for parent in parents:
            inner = place.get(parent)
            place[parent] = inner = (
                {"name": inner} if isinstance(inner, str) else ({} if inner is None else inner)
            )
            if not isinstance(inner, dict):
                raise InputError(f"{setting!r} sets an option of {parent}, which is {inner!r} and has none")
            place = inner
        value = parse_value(text)
        if last == "name" and parents and place.get("name") != value:
            place.clear()
        place[last] = value
    return result


def parse_value(text: str) -> Any:
    """A value as TOML writes it; what is not TOML is text."""
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text.strip()
    if len(found) > 1:
        raise InputError(f"{text!r} is more than a value: what follows the line break would be ignored")
    return found["value"]


def _copy(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copy(value) if isinstance(value, Mapping) else value for key, value in values.items()}

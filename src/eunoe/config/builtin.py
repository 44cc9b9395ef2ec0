"""The kinds of named components, their built-in names and the presets of methods, all from builtin.toml."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from eunoe.text import read_data


@dataclass(frozen=True)
class Kind:
    """A kind of component that a config names.

    `key` is the name in code and in entry points (`eunoe.<key>`), `plural` that in `eunoe list`, `section`
    the part of a config that names one, by default the key. A user's own class must derive from `base`, so
    that naming it cannot call anything else; without a base any class or function is accepted. `prefixes`
    maps the prefix of another library to a function: `flwr:Name` is the result of calling it with Name.
    """

    key: str
    plural: str
    names: Mapping[str, str]
    section: str | None = None
    base: str | None = None
    prefixes: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name in messages."""
        return self.key.replace("_", " ")


_VALUES = read_data("eunoe.config", "builtin.toml")
PRESETS: dict[str, dict[str, Any]] = _VALUES.pop("presets")
KINDS = {key: Kind(key, **values) for key, values in _VALUES.items()}

"""Writing TOML: the standard library only reads it."""

import re
from collections.abc import Mapping
from typing import Any


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

"""Merging nested config values before they are validated."""

from collections.abc import Mapping
from typing import Any


def merge(base: Mapping[str, Any], *changes: Mapping[str, Any]) -> dict[str, Any]:
    """The values with changes merged in; a section that has a `name` replaces the earlier one."""
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

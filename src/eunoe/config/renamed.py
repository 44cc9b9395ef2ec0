"""Renamed config keys: stored configs may have the old names; elsewhere an error gives the new name."""

from collections.abc import Mapping
from typing import Any

# Dotted paths of version 0.1 and the new name of their last part.
RENAMED = {"merge": "aggregation", "secure_aggregation.most_samples": "max_samples"}
# Options of version 0.1 that no longer exist; results do not depend on them.
REMOVED = {"engine.summers"}
# Functions of version 0.1 that a config may name, and where they are now.
MOVED = {"eunoe.papers.part:part": "eunoe_papers.part:part"}


def rename_keys(values: Mapping[str, Any], parents: str = "") -> dict[str, Any]:
    """Return a stored config with the current names of its keys."""
    renamed = {}
    for key, value in values.items():
        path = f"{parents}{key}"
        if path in REMOVED:
            continue
        inner = rename_keys(value, f"{path}.") if isinstance(value, Mapping) else value
        inner = MOVED.get(inner, inner) if isinstance(inner, str) else inner
        renamed[RENAMED.get(path, key)] = inner
    return renamed

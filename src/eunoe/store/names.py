"""The names of what a run's rounds have recorded, such as "test.accuracy"."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from eunoe.errors import InputError, nearest


def check_recorded(records: Iterable[Mapping[str, Any]], name: str) -> None:
    """Refuse a name that no round has; before the first round any may come."""
    known = {found for record in records for found in _names(record)}
    if known and name not in known:
        raise InputError(f"no round of this run has {name!r}: {nearest(name, known)}")


def _names(record: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for key, value in record.items():
        if isinstance(value, Mapping):
            yield from _names(value, f"{above}{key}.")
        else:
            yield f"{above}{key}"

"""What the columns of somebody's table seem to be: sentences, ids, dates, or what says train and test."""

from collections.abc import Collection
from typing import Any

import numpy as np

# A column of strings with this many words on average is text, not categories.
_WORDS = 3
# So many different strings are no accident in a column of categories.
_MANY = 20


def text_column(frame: Any, others: Collection[str | None]) -> str | None:
    """The column with the longest sentences, if one has sentences."""
    words = {}
    for name in frame.column_names:
        values = [value for value in frame.column(name)[:200].to_pylist() if isinstance(value, str)]
        if name not in others and values:
            words[name] = float(np.mean([len(value.split()) for value in values]))
    longest = max(words, key=lambda name: words[name], default=None)
    return longest if longest is not None and words[longest] >= _WORDS else None


def part_column(frame: Any, others: Collection[str | None]) -> str | None:
    """The column that says of each row whether it is to train or to test on, if there is one."""
    for name in frame.column_names:
        if name not in others and {"train", "test"} <= set(map(str, frame.column(name).unique().to_pylist())):
            return str(name)
    return None


def useless_columns(frame: Any, others: Collection[str | None]) -> dict[str, str]:
    """Columns from which nothing can be learned of other rows, and why."""
    found = {name: _useless(frame.column(name)) for name in frame.column_names if name not in others}
    return {name: why for name, why in found.items() if why}


def differs(column: Any) -> bool:
    """Whether nearly every row of a column has a value of its own, as ids have."""
    return len(column.unique()) > max(_MANY, len(column) / 2)


def _useless(column: Any) -> str:
    from pyarrow import compute, types

    kind, present = column.type, column.drop_null()
    if len(present) == 0:
        return "is empty"
    if types.is_temporal(kind):
        return "holds dates or times"
    if types.is_string(kind) or types.is_large_string(kind):
        # An id says nothing of a row with another one, and would become a column of its own.
        return "differs in nearly every row" if differs(present) else ""
    distinct = len(present.unique())
    if types.is_integer(kind) and distinct == len(column) > _MANY:
        ends = compute.min_max(column).as_py()
        return "numbers the rows" if ends["max"] - ends["min"] == distinct - 1 else ""
    return ""

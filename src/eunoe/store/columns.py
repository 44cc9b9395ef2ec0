"""The records of many rounds, in columns: a number takes 8 bytes, so that 100,000 rounds need little memory.

A record is a mapping as JSON gives it. Each of its values, nested ones by the path of their keys, is kept in
the column of that path; reading a record puts it together again, equal to what came in.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, chain
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

Record = Mapping[str, Any]
Path = tuple[str, ...]
Rows = NDArray[np.int64]

# Values that wait until they are put into an array together.
_BLOCK = 256
# The type code of an array for numbers of these types; unknown ones are NaN in it and None outside.
_CODES = {frozenset({float}): "d", frozenset({float, type(None)}): "d", frozenset({int}): "q"}


class Column:
    """The values of one path: numbers or lists of numbers in arrays, all others as they are."""

    def __init__(self) -> None:
        self.waiting: list[Any] = []
        self._numbers: array[Any] | None = None
        # Where each list ends, if the values are lists.
        self._ends: array[int] | None = None
        self._objects: list[Any] = []

    def settle(self, most: int = 0) -> None:
        """Put values that wait into the arrays, if there are more than so many."""
        if len(self.waiting) <= most:
            return
        if self._objects or not self._settled():
            if self._numbers is not None:
                self._objects, self._numbers, self._ends = list(self), None, None
            self._objects += self.waiting
        self.waiting.clear()

    def _settled(self) -> bool:
        """Add what waits to the arrays, if it is like what is there."""
        values, ends = self.waiting, None
        if set(map(type, values)) == {list}:
            begin = len(self._numbers) if self._numbers is not None else 0
            ends = array("q", accumulate(map(len, values), initial=begin))[1:]
            values = list(chain.from_iterable(values))
        kinds = frozenset(map(type, values))
        code = _CODES.get(kinds)
        if self._numbers is None:
            if code is None:
                return False
            self._numbers, self._ends = array(code), None if ends is None else array("q")
        if (ends is None) != (self._ends is None) or (values and code != self._numbers.typecode):
            return False
        if type(None) in kinds:
            values = [np.nan if number is None else number for number in values]
        try:
            self._numbers.extend(array(self._numbers.typecode, values))
        except OverflowError:
            return False
        if self._ends is not None and ends is not None:
            self._ends.extend(ends)
        return True

    def __len__(self) -> int:
        numbers = self._numbers if self._ends is None else self._ends
        return len(numbers or ()) + len(self._objects)

    def __getitem__(self, at: int) -> Any:
        if self._numbers is None:
            return self._objects[at]
        if self._ends is None:
            return _outside(self._numbers[at])
        begin = self._ends[at - 1] if at else 0
        return [_outside(number) for number in self._numbers[begin : self._ends[at]]]

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def known(self) -> tuple[NDArray[np.bool_], Any]:
        """Which values are not None, and these values."""
        if self._numbers is not None:
            values = np.array(self._numbers)
            if self._ends is None:
                there = ~np.isnan(values)
                return there, values[there]
            lengths = np.diff(np.array(self._ends), prepend=0)
            if (lengths == lengths[0]).all():
                return np.ones(len(self), bool), values.reshape(len(self), lengths[0])
        found = list(self)
        there = np.array([value is not None for value in found], bool)
        return there, [value for value in found if value is not None]


def _outside(number: float) -> float | None:
    # NaN alone is not equal to itself.
    return number if number == number else None


class _Node:
    """A key: what adds to the column of its own values, if it has any, and the keys nested under it."""

    def __init__(self, path: Path) -> None:
        self.path, self.keys = path, dict[str, _Node]()
        self.append: Callable[[Any], None] | None = None


class RecordColumns(Sequence[Record]):
    """Records, read as a sequence of mappings or by column."""

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self._columns: dict[Path, Column] = {}
        # The keys of each record in their order; most records have the same ones.
        root, layouts, of = _Node(()), dict[tuple[_Node, ...], int](), array("q")
        for record in records:
            nodes: list[_Node] = []
            self._take(record, root, nodes)
            of.append(layouts.setdefault(tuple(nodes), len(layouts)))
            if len(of) % _BLOCK == 0:
                self._settle(_BLOCK // 2)
        self._settle()
        self._layouts = [[node.path for node in nodes] for nodes in layouts]
        self._of = np.array(of, np.int64)

    def _take(self, record: Record, node: _Node, nodes: list[_Node]) -> None:
        for key, value in record.items():
            inner = node.keys.get(key)
            if inner is None:
                inner = node.keys[key] = _Node((*node.path, key))
            if value and isinstance(value, dict):
                self._take(value, inner, nodes)
                continue
            if inner.append is None:
                column = self._columns[inner.path] = Column()
                # Millions of values pass here: one call less for each.
                inner.append = column.waiting.append
            inner.append(value)
            nodes.append(inner)

    def _settle(self, most: int = 0) -> None:
        for column in self._columns.values():
            column.settle(most)

    @classmethod
    def of(cls, records: Sequence[Record]) -> "RecordColumns":
        """Records in columns, if they are not already."""
        return records if isinstance(records, cls) else cls(records)

    def __len__(self) -> int:
        return len(self._of)

    @overload
    def __getitem__(self, at: int) -> Record: ...
    @overload
    def __getitem__(self, at: slice) -> list[Record]: ...
    def __getitem__(self, at: int | slice) -> Record | list[Record]:
        if isinstance(at, slice):
            return [self[row] for row in range(*at.indices(len(self)))]
        row = range(len(self))[at]
        paths = self._layouts[self._of[row]]
        at_paths = [int(self.rows_at(*path).searchsorted(row)) for path in paths]
        return _nested(paths, [self._columns[path][at] for path, at in zip(paths, at_paths, strict=True)])

    def __iter__(self) -> Iterator[Record]:
        values = {path: iter(column) for path, column in self._columns.items()}
        for layout in self._of:
            paths = self._layouts[layout]
            yield _nested(paths, [next(values[path]) for path in paths])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def rows_with(self, key: str) -> Rows:
        """The records that have something nested under a key."""
        nested = {path for path in self._columns if len(path) > 1 and path[0] == key}
        return self._rows([not nested.isdisjoint(paths) for paths in self._layouts])

    def rows_at(self, *path: str) -> Rows:
        """The records that have a value at this path, None included."""
        return self._rows([path in paths for paths in self._layouts])

    def _rows(self, layouts: Sequence[bool]) -> Rows:
        return np.flatnonzero(np.array(layouts, bool)[self._of])

    def known(self, *path: str) -> tuple[Rows, Any]:
        """The records that have a value at this path that is not None, and the values.

        Numbers are an array, and so are lists of as many numbers each, with NaN for None.
        """
        if path not in self._columns:
            return np.empty(0, np.int64), []
        there, values = self._columns[path].known()
        return self.rows_at(*path)[there], values

    def select(self, key: str, *names: str) -> Iterator[dict[str, Any]]:
        """Of each record that has something nested under a key, what it has there under these names."""
        paths = [(key, name) for name in names if (key, name) in self._columns]
        found: dict[int, dict[str, Any]] = {int(row): {} for row in self.rows_with(key)}
        for path in paths:
            for row, value in zip(self.rows_at(*path), self._columns[path], strict=True):
                found[int(row)][path[1]] = value
        yield from found.values()

    def is_number(self, *path: str) -> bool:
        """Whether any record has a number at this path."""
        return any(isinstance(value, int | float) for value in self._columns[path])

    def paths(self) -> list[Path]:
        """All paths, in the order in which they first came."""
        return list(self._columns)


def _nested(paths: Sequence[Path], values: Sequence[Any]) -> dict[str, Any]:
    record: dict[str, Any] = {}
    for path, value in zip(paths, values, strict=True):
        place = record
        for key in path[:-1]:
            place = place.setdefault(key, {})
        place[path[-1]] = value
    return record

"""Records in columns: what goes in comes out."""

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as some

from eunoe.store.columns import RecordColumns

FIRST: dict[str, Any] = {
    "round": 1,
    "clients": [3, 5],
    "test": None,
    "forgetting": {"round": None},
    "dropped": [],
}
SECOND: dict[str, Any] = {
    "round": 2,
    "clients": [4, 6],
    "test": {"accuracy": 0.5, "per_class": [0.25, None]},
    "forgetting": {"round": 0.125},
    "dropped": [{"client": 3, "reason": "late"}],
}

keys = some.sampled_from("abc")
values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text(max_size=3),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)


@given(some.lists(some.dictionaries(some.sampled_from("abcd"), values, max_size=4), max_size=6))
def test_records_are_equal_to_what_came_in_with_their_types_and_order(records: list[dict[str, Any]]) -> None:
    columns = RecordColumns(records)
    assert len(columns) == len(records)
    assert json.dumps(list(columns)) == json.dumps(records)
    assert json.dumps([columns[at] for at in range(len(records))]) == json.dumps(records)
    assert json.dumps(columns[-2:]) == json.dumps(records[-2:])


def test_a_column_has_the_records_whose_value_is_known() -> None:
    columns = RecordColumns([FIRST, SECOND])
    rows, found = columns.known("test", "accuracy")
    assert (rows.tolist(), found.tolist()) == ([1], [0.5])
    rows, found = columns.known("clients")
    assert (rows.tolist(), found.tolist()) == ([0, 1], [[3, 5], [4, 6]])
    rows, found = columns.known("test", "per_class")
    np.testing.assert_array_equal(found, [[0.25, np.nan]])
    assert columns.known("test")[0].tolist() == []
    assert columns.known("not there")[0].tolist() == []
    assert columns.rows_at("forgetting", "round").tolist() == [0, 1]
    assert columns.known("forgetting", "round")[0].tolist() == [1]


def test_lists_of_other_lengths_stay_lists() -> None:
    _, found = RecordColumns([{"steps": [1, 2]}, {"steps": []}, {"steps": [3]}]).known("steps")
    assert found == [[1, 2], [], [3]]


def test_what_is_nested_under_a_key_is_found() -> None:
    columns = RecordColumns([FIRST, SECOND])
    assert columns.rows_with("test").tolist() == [1]
    assert columns.rows_with("clients").tolist() == []
    assert columns.is_number("round")
    assert not columns.is_number("dropped")


def test_a_number_takes_eight_bytes() -> None:
    columns = RecordColumns({"round": round, "norms": [0.5, None] * 5} for round in range(1000))
    arrays = [column._numbers for column in columns._columns.values()]
    assert [len(found) * found.itemsize for found in arrays if found is not None] == [8 * 1000, 8 * 10 * 1000]


def test_a_column_may_become_another_kind_after_many_records() -> None:
    records = [{"value": 1, "list": [0.5]} for _ in range(1000)]
    records += [{"value": value, "list": [1, "a"]} for value in (0.5, None, 2**70)]
    assert json.dumps(list(RecordColumns(records))) == json.dumps(records)

"""A few fuzzed inputs of each kind; thousands are tried by `python -m tests.attacks.fuzz`."""

import pytest

from tests.attacks.fuzz import BAD, attempt, cases


@pytest.mark.parametrize(
    ("name", "count"), [("configs", 40), ("folders", 15), ("records", 20), ("data", 60), ("tables", 200)]
)
def test_no_traceback_and_no_silent_difference(name: str, count: int) -> None:
    # Another seed than that of the documented counts.
    case = cases(name)
    found = [attempt(case, number, seed=1, seconds=60.0) for number in range(count)]
    assert [one for one in found if one.outcome in BAD] == []
    worked = "other" if name in ("records", "tables") else "ran"
    assert {worked, "refused"} <= {one.outcome for one in found}

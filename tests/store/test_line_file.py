"""Files that grow by a line at a time."""

from pathlib import Path

import pytest

from eunoe.store.line_file import LineFile


@pytest.mark.parametrize("length", [1, 5_000, 50_000])
def test_the_last_record_is_read_from_the_end(tmp_path: Path, length: int) -> None:
    file = LineFile(tmp_path / "metrics.jsonl")
    assert file.last() == {}
    for round in (1, 2, 3):
        file.append([{"round": round, "values": [0] * length}])
        assert file.last()["round"] == round
    # A line that was being written when the process died.
    with open(file.path, "a") as written:
        written.write('{"round": 4')
    assert file.last()["round"] == 3


def test_a_file_without_a_whole_line_has_no_last_record(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "metrics.jsonl")
    file.path.write_text('{"round": 1')
    assert file.last() == {}

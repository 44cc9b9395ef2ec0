"""Files that grow by a line at a time."""

from pathlib import Path

import pytest

from eunoe.errors import Damaged
from eunoe.store.folder import RunFolder
from eunoe.store.line_file import LineFile
from eunoe.system.files import read_lines


@pytest.mark.parametrize("length", [1, 5_000, 50_000])
def test_the_last_record_is_the_last_that_was_completely_written(tmp_path: Path, length: int) -> None:
    file = LineFile(tmp_path / "metrics.jsonl")
    with RunFolder(tmp_path) as folder:
        assert folder.last_record() == {}
        for round in (1, 2, 3):
            file.append([{"round": round, "values": [0] * length}])
            assert folder.last_record()["round"] == round
        # A line that was being written when the process died.
        with open(file.path, "a") as written:
            written.write('{"round": 4')
        assert folder.last_record()["round"] == 3


def test_a_file_without_a_whole_line_has_no_last_record(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"round": 1')
    with RunFolder(tmp_path) as folder:
        assert folder.last_record() == {}


def test_what_follows_the_mark_is_removed_and_what_precedes_it_must_match(tmp_path: Path) -> None:
    file = LineFile(tmp_path / "metrics.jsonl")
    file.append([{"round": 1}])
    mark = file.sync()
    file.append([{"round": 2}])
    resumed = LineFile(file.path)
    resumed.truncate(mark)
    assert read_lines(file.path) == [{"round": 1}]
    resumed.append([{"round": 2}])
    assert resumed.sync() == file.sync()
    file.path.write_text('{"round": 7}\n')
    with pytest.raises(Damaged, match="SHA-256 mismatch"):
        file.verify(mark)
    file.path.write_text('{"ro\n')
    with pytest.raises(Damaged, match="has 5 bytes instead of 13"):
        file.verify(mark)

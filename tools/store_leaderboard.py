"""Store the rows of a bench in the package's leaderboard: `python -m tools.store_leaderboard FOLDER`.

FOLDER is the --out of `eunoe bench`. Rows of the same suite, setting, entry and seed are replaced.
"""

import gzip
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from eunoe.analysis.leaderboard import Row
from eunoe.system.files import read_lines, replacing

STORED = Path(__file__).parent.parent / "src/eunoe/search/leaderboard.json.gz"


def store_rows(rows: Sequence[Row], path: Path = STORED) -> None:
    """Add rows to a stored table."""
    old = gzip.decompress(path.read_bytes()).decode().splitlines() if path.exists() else []

    def key(row: Row) -> tuple[str, str, str, int]:
        return row["suite"], row["setting"], row["entry"], row.get("seed", -1)

    merged = {key(row): row for row in [*map(json.loads, old), *rows]}
    text = "".join(f"{json.dumps(merged[each])}\n" for each in sorted(merged))
    with replacing(path) as partial:
        # Without the time, so that the same rows make the same file.
        partial.write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    store_rows(read_lines(Path(sys.argv[1]) / "results.jsonl"))

"""The tables of records in docs/run-folder.md, from store/schema.py; `make docs` writes them anew."""

import re
from pathlib import Path
from typing import Any

from eunoe.analysis.tables import Table
from eunoe.store import schema

PAGE = Path(__file__).parent / "run-folder.md"
BLOCK = re.compile(r"(?<=<!-- records -->\n).*?(?=<!-- end of records -->)", re.DOTALL)
FILES = {
    "metrics.jsonl (schema 1)": (schema.RoundRecord, schema.ModelRecord, schema.EvaluationRecord),
    "probes.jsonl": (schema.ProbeRecord, *schema.PROBES.values()),
    "timings.jsonl": (schema.TimingRecord,),
    "partition.json": (schema.PartitionRecord,),
    "status.json": (schema.StatusRecord,),
}


def tables() -> str:
    """Return the tables of all files, with a heading for each."""
    parts = []
    for title, records in FILES.items():
        parts += [f"### {title}", *(_table(record) for record in records)]
    return "\n" + "\n\n".join(parts) + "\n\n"


def _table(record: Any) -> str:
    """Return what a record is, and its keys with their meaning."""
    rows = [[f"`{key}`", meaning] for key, meaning in schema.describe(record).items()]
    return f"{record.__doc__}\n\n{Table(['key', 'meaning'], rows).markdown()}"


if __name__ == "__main__":
    PAGE.write_text(BLOCK.sub(lambda _: tables(), PAGE.read_text("utf-8")), "utf-8")

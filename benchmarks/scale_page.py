"""Puts what benchmarks measure into docs/scale.md, each between its own marks."""

import os
import time
from pathlib import Path

import torch

from eunoe.system.machine import cores, processor

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "scale.md"


def put(name: str, text: str) -> None:
    """Print a text and let it replace what is between the marks of this name."""
    print(text, flush=True)
    machine = f"{processor()}, {cores()} cores, torch {torch.__version__}, load {os.getloadavg()[0]:.1f}"
    begin, end = f"<!-- {name} -->", f"<!-- end of {name} -->"
    page = PAGE.read_text()
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    day = time.strftime("%d %B %Y").lstrip("0")
    PAGE.write_text(f"{before}{begin}\n\n{text}\n\n*{day}, {machine}.*\n\n{end}{after}")

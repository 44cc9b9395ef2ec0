"""The benchmarks can be imported, and the docs name sections that exist."""

import importlib
import re
from pathlib import Path

import pytest

pytest.importorskip("flwr")

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if path.stem != "harness")


def test_there_are_at_most_eight():
    assert len(NAMES) <= 8


@pytest.mark.parametrize("name", NAMES)
def test_the_docs_name_sections_that_exist(name):
    module = importlib.import_module(f"benchmarks.{name}")
    command = re.compile(rf"python -m benchmarks\.{name}((?: [a-z_]+)*)`")
    pages = [path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md")]
    sections = {section for page in pages for words in command.findall(page) for section in words.split()}
    assert all(callable(getattr(module, section, None)) for section in sections), sections
    assert all(section in module.__doc__ for section in sections)


def test_the_docs_name_no_benchmark_that_is_gone():
    pages = [path.read_text("utf-8") for path in (ROOT / "docs").glob("*.md")]
    assert {name for page in pages for name in re.findall(r"benchmarks[./](\w+)", page)} <= {*NAMES, "py"}

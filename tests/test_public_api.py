"""What users rely on is what tests/public_api.txt says; after a change that is meant: `make api`."""

import ast
from pathlib import Path

from tools.public_api import FURTHER, described

import eunoe
from eunoe.flower import template

KNOWN = Path(__file__).parent / "public_api.txt"
ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference.md"
PLACES = [f"{module}.{name.rpartition('.')[2]}" for name, module in {**eunoe._PUBLIC, **FURTHER}.items()]


def test_nothing_public_has_changed_unnoticed():
    assert described().splitlines() == KNOWN.read_text("utf-8").splitlines(), "if it is meant: make api"


def test_the_reference_has_every_public_name():
    told = [line.removeprefix("::: ") for line in REFERENCE.read_text("utf-8").splitlines() if ":::" in line]
    assert sorted(told) == sorted(PLACES)


def test_what_users_start_from_imports_only_what_is_public():
    public = {*PLACES, *(f"eunoe.{name}" for name in (*eunoe._PUBLIC, *FURTHER))}
    examples = [path.read_text("utf-8") for path in (ROOT / "examples").glob("*.py")]
    imported = {
        f"{node.module}.{alias.name}"
        for text in (*examples, template.SERVER, template.CLIENT, template.START)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("eunoe")
        for alias in node.names
    }
    assert imported
    assert not imported - public

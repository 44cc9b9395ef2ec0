"""What users rely on is what tests/public_api.txt says; after a change that is meant: `make api`."""

import ast
import re
from pathlib import Path

from tools.public_api import PACKAGES, describe_api

import eunoe
from eunoe.flower.deploy.init import render

KNOWN = Path(__file__).parent / "public_api.txt"
ROOT = Path(__file__).parents[1]
REFERENCE = ROOT / "docs" / "reference.md"
PUBLIC = {"eunoe": set(eunoe._PUBLIC), **{package: set(names.split()) for package, names in PACKAGES.items()}}


def test_nothing_public_has_changed_unnoticed():
    assert describe_api().splitlines() == KNOWN.read_text("utf-8").splitlines(), "if it is meant: make api"


def test_the_reference_has_every_public_name():
    rows = re.findall(
        r"^\| \[(eunoe[\w.]*)\]\([^)]*\) \| (.*) \|$", REFERENCE.read_text("utf-8"), re.MULTILINE
    )
    assert {package: set(re.findall(r"`(\w+)`", names)) for package, names in rows} == PUBLIC


def test_what_users_start_from_imports_only_what_is_public():
    apps = [render("app.py", {"role": role}) for role in ("server", "client")]
    apps.append(render("start.py", {"nodes": 2, "port": 8443}))
    examples = [path.read_text("utf-8") for path in (ROOT / "examples").glob("*.py")]
    imported = {
        (node.module, alias.name)
        for text in (*examples, *apps)
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("eunoe")
        for alias in node.names
    }
    assert imported
    assert not [(package, name) for package, name in imported if name not in PUBLIC.get(package, ())]

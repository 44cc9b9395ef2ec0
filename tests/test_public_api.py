"""What users rely on is what tests/public_api.txt says; after a change that is meant: `make api`."""

from pathlib import Path

from tools.public_api import FURTHER, described

import eunoe

KNOWN = Path(__file__).parent / "public_api.txt"
REFERENCE = Path(__file__).parents[1] / "docs" / "reference.md"


def test_nothing_public_has_changed_unnoticed():
    assert described().splitlines() == KNOWN.read_text("utf-8").splitlines(), "if it is meant: make api"


def test_the_reference_has_every_public_name():
    places = [f"{module}.{name.rpartition('.')[2]}" for name, module in {**eunoe._PUBLIC, **FURTHER}.items()]
    told = [line.removeprefix("::: ") for line in REFERENCE.read_text("utf-8").splitlines() if ":::" in line]
    assert sorted(told) == sorted(places)

"""What the README and the docs say is true: their commands work, their code prints what stands below it."""

import contextlib
import io
import re
import shlex
from pathlib import Path

import pytest

from eunoe.cli.app import app
from eunoe.config.schema import make_config
from eunoe.config.settings import read_config

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")) if "```" in page.read_text()
)
NUMBER = r"\d+\.\d+"


def blocks(page: Path) -> list[tuple[str, str]]:
    """The code blocks of a page, each with its language."""
    return re.findall(r"^```(\w+)\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_says_what_is_true(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    printed = commanded = ""
    for language, text in blocks(page):
        if language == "sh":
            for line in text.splitlines():
                if line.startswith("eunoe "):
                    with contextlib.redirect_stdout(io.StringIO()) as out:
                        app(shlex.split(line, comments=True)[1:], standalone_mode=False)
                    commanded = out.getvalue()
        elif language == "toml":
            path = tmp_path / "page.toml"
            path.write_text(text)
            make_config(read_config(path))
        elif language == "python" and "--8<--" not in text:
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, str(page), "exec"), {"__name__": "page"})
            printed = out.getvalue()
        elif language == "text":
            compare(printed, text)
        elif language == "console":
            for line in text.splitlines():
                compare("\n".join(each for each in commanded.splitlines() if alike(each, line)), line)


def alike(one: str, other: str) -> bool:
    """Whether two lines differ in their numbers only."""
    return re.sub(NUMBER, "N", one) == re.sub(NUMBER, "N", other)


def compare(printed: str, expected: str) -> None:
    """The same words, and numbers that differ by no more than another processor's last bits can make them."""
    assert alike(printed, expected)
    found, wanted = ([float(n) for n in re.findall(NUMBER, text)] for text in (printed, expected))
    assert found == pytest.approx(wanted, abs=0.02, rel=0.1)

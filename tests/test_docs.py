"""Check the README and the docs: links exist, commands work, and code prints the output shown below it."""

import contextlib
import io
import re
import shlex
import sys
import tomllib
from pathlib import Path

import pytest

from eunoe.cli import demo
from eunoe.cli.app import app
from eunoe.config.schema import make_config
from eunoe.config.settings import read_config

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import method_pages  # noqa: E402
import record_tables  # noqa: E402

PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
WITH_CODE = [page for page in PAGES if "```" in page.read_text()]
ARCHITECTURE = ROOT / "docs" / "architecture.md"
NUMBER = r"\d+\.\d+"
# Pages and blocks that are generated, and the limit for all other pages together.
GENERATED = {"methods.md", "results.md"}
GENERATED_BLOCK = re.compile(r"<!-- (records|leaderboard|measured) -->.*?<!-- end of \1 -->", re.DOTALL)
MAX_WORDS = 23_000
# A code block that shows a file of the repository says so in the line above it.
SHOWN = re.compile(r"^<!-- file: (\S+) -->\n```\w+\n(.*?)^```", re.DOTALL | re.MULTILINE)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the code blocks of a page that show no file, each with its language."""
    return re.findall(r"^```(\w+)\n(.*?)^```", SHOWN.sub("", page.read_text()), re.DOTALL | re.MULTILINE)


def headings(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub and MkDocs make them."""
    titles = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_leads_to_a_file_of_the_clone(page):
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"", text)
    for link in (markdown or html for markdown, html in links):
        if "://" not in link:
            path, _, heading = link.partition("#")
            target = page.parent / path if path else page
            assert target.exists(), link
            assert not heading or heading in headings(target), link


DOCS = [page for page in PAGES if page.parent.name == "docs" and page.name not in GENERATED]


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_a_page_starts_with_an_example_and_ends_with_links(page):
    text = page.read_text()
    first = re.search(r"^```(\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert first
    assert first[1] == "python" or (first[1] == "sh" and re.search("^eunoe ", first[2], re.MULTILINE))
    assert text[: first.start()].count("\n") < 20
    assert "](" in text.rstrip().split("\n\n")[-1]


def test_the_docs_are_short():
    texts = [GENERATED_BLOCK.sub("", page.read_text()) for page in DOCS]
    assert sum(len(text.split()) for text in texts) <= MAX_WORDS


def test_code_shown_from_a_file_is_that_file():
    shown = [(path, text) for page in PAGES for path, text in SHOWN.findall(page.read_text())]
    assert shown
    for path, text in shown:
        assert text == (ROOT / path).read_text(), path


def test_the_map_lists_all_packages_in_the_order_of_the_layers():
    table = ARCHITECTURE.read_text().partition("Four decisions")[0]
    mapped = re.findall(r"^\| \[\S+\]\(\.\./src/eunoe/(\w+)(?:\.py)?\)", table, re.MULTILINE)
    here = {path.stem for path in (ROOT / "src" / "eunoe").iterdir() if path.suffix in ("", ".py")}
    assert set(mapped) == {name for name in here if not name.startswith("__")}
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]
    assert mapped == contract["layers"]


def test_methods_page_is_up_to_date():
    assert (ROOT / "docs" / "methods.md").read_text() == method_pages.overview(), "run `make docs`"
    assert "\n- Privacy requires method.weighting = 'uniform'.\n" in method_pages.compatibility()


def test_the_tables_of_records_are_those_of_the_schema():
    (tables,) = record_tables.BLOCK.findall(record_tables.PAGE.read_text())
    assert tables == record_tables.tables(), "run `make docs`"


@pytest.mark.slow
def test_the_readme_has_the_demos_numbers(tmp_path):
    with contextlib.redirect_stdout(io.StringIO()) as out:
        app(["demo", "--out", str(tmp_path)], standalone_mode=False)
    readme = (ROOT / "README.md").read_text()
    for title in demo.ARMS:
        printed = next(line for line in out.getvalue().splitlines() if line.startswith(f"│ {title} "))
        shown = next(line for line in readme.splitlines() if line.startswith(f"| {title} |"))
        # The demo also says how long a run took.
        cells = [cell.strip() for cell in printed.split("│")[1:-2]]
        compare(" ".join(cells), " ".join(cell.strip() for cell in shown.split("|")[1:-1]))


@pytest.mark.parametrize("page", WITH_CODE, ids=lambda page: page.name)
def test_examples_print_what_is_shown(page, tmp_path, monkeypatch):
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
        elif language == "python" and (name := re.match(r"# (\w+\.py)\n", text)):
            # A file beside the config, which a later command names.
            (tmp_path / name[1]).write_text(text)
        elif language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(compile(text, str(page), "exec"), {"__name__": "page"})
            printed = out.getvalue()
        elif language == "text":
            compare(printed, text)
        elif language == "console":
            for line in text.splitlines():
                compare("\n".join(each for each in commanded.splitlines() if alike(each, line)), line)


def alike(line: str, other: str) -> bool:
    """Return whether two lines differ in their numbers only."""
    return re.sub(NUMBER, "N", line) == re.sub(NUMBER, "N", other)


def compare(printed: str, expected: str) -> None:
    """Assert equal words, and numbers that differ by no more than another CPU's last bits can make them."""
    assert alike(printed, expected)
    numbers, wanted = ([float(n) for n in re.findall(NUMBER, text)] for text in (printed, expected))
    assert numbers == pytest.approx(wanted, abs=0.02, rel=0.1)

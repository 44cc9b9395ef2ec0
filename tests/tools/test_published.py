"""What the README and the site say of results is what the files in results/ say."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from eunoe.config import registry
from eunoe.papers import find_recipe, recipes
from eunoe.papers.base import Scale
from eunoe.papers.reproduce import Choice, results_of
from tests.papers.made_up import write_run

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import method_pages  # noqa: E402
import published  # noqa: E402

NOTES = """
figures = ["flashback-table1-cifar10", "wsm-table3"]
[full.flashback-table1-cifar10]
headline = ["flashback 50%", "moon 50%", "fedavg 95%"]
brief = "Ours is\\nslower."
note = "Tried **this**."
[small.flashback-table1-cifar10]
note = "Only small."
"""


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Results of Flashback and FedAvg in full, and of Flashback at small scale."""
    (tmp_path / "notes.toml").write_text(NOTES)
    scales: tuple[Scale, ...] = ("full", "small")
    for scale in scales:
        choice = Choice(find_recipe("flashback-table1-cifar10"), scale, tmp_path)
        write_run(choice, choice.recipe.runs(scale, [0], only="flashback")[0], {1: 0.2, 3: 0.3, 7: 0.47})
        if scale == "full":
            write_run(choice, choice.recipe.runs(scale, [0], only="fedavg")[0], {1: 0.1, 85: 0.4})
    published.refresh(tmp_path)
    return tmp_path


def test_the_readme_gets_the_headline_rows_with_links_a_figure_and_a_sentence(out: Path) -> None:
    lines = published.readme_block(out).splitlines()
    folder = "results/flashback-table1-cifar10/full"
    measure = "rounds to a share of the target accuracy"
    assert lines[2:4] == [
        f"| [flashback, Table 1, CIFAR-10]({folder}/summary-flashback-table1-cifar10.json): {measure} "
        f"| [flashback 50%]({folder}/flashback) | 2 | 3 | +1 | 1 | 7 of 150 |",
        f"|  | [fedavg 95%]({folder}/fedavg) | not reached | more than 85 |  | 1 | 85 of 150 |",
    ]
    figure = f"{folder}/flashback-table1-cifar10.svg"
    assert f"]({figure})" in lines[5]
    for link in re.findall(r"\]\(results/(.*?)\)", "\n".join(lines)):
        assert (out / link).exists(), link
    drawn = (out.parent / figure.replace("results", out.name, 1)).read_text()
    assert "STOPPED EARLY after 7 of 150 rounds: flashback" in drawn
    assert lines[-1] == "- `flashback-table1-cifar10`: Ours is slower."


def test_without_results_the_readme_says_so(tmp_path: Path) -> None:
    assert published.readme_block(tmp_path) == "No run at the papers' scale is in `results/` yet."


def test_only_the_block_of_the_readme_is_replaced() -> None:
    before = f"a\n{published.BEGIN}\nold\n{published.END}\nb\n"
    after = published.with_block(before, "new")
    assert after == f"a\n{published.BEGIN}\n\nnew\n\n{published.END}\nb\n"
    assert published.with_block(after, "new") == after


def test_the_page_keeps_full_and_small_apart(out: Path) -> None:
    full, small = published.results_page(out).split("## At small scale")
    for text in (
        "| flashback 50% | 2 | 3 | +1 | 1 | 7 of 150 |",
        "Tried **this**.",
        "fedavg 95%",
        "-full.svg",
    ):
        assert text in full
        assert text not in small
    for text in (
        "ours (small)",
        "Only small.",
        "7 of 15 |",
        "-small.svg",
        "### flashback-table1-cifar10 (small)",
    ):
        assert text in small
        assert text not in full
    # The figure of the paper's first page is made of the same runs.
    assert "### flashback-fig1\n" in full


def test_a_methods_rows_stand_beside_fedavgs_at_full_scale(out: Path) -> None:
    rows = published.method_rows("flashback", out)
    assert [row[:2] for row in rows] == [
        ["flashback-table1-cifar10 (full)", f"{method} {share}"]
        for method in ("fedavg", "flashback")
        for share in ("50%", "75%", "95%")
    ]
    assert {row[1].split()[0] for row in published.method_rows("fedavg", out)} == {"fedavg"}
    assert published.method_rows("moon", out) == []


def test_a_stand_in_is_told_apart_from_the_papers_numbers(tmp_path: Path) -> None:
    choice = Choice(find_recipe("flashback-table1-femnist"), "full", tmp_path, stand_in=True)
    write_run(choice, choice.recipe.runs("full", [0], True, "fedavg")[0], {1: 0.2, 150: 0.6})
    published.refresh(tmp_path)
    page = published.results_page(tmp_path)
    assert "not comparable" in page
    assert "| fedavg 50% | omniglot for femnist | 150 |  | 1 | 150 |" in page


def test_every_method_has_a_page_with_all_its_parts() -> None:
    names = registry.names("method")
    assert set(method_pages.WHEN_IT_HELPS) == set(names)
    for name in names:
        page = method_pages.method_page(name)
        for part in ("```text", "## When it helps", "## Use", "| `", "## Cost", f"| {name} + ce |"):
            assert part in page, (name, part)
    assert method_pages.overview().count("](../src/eunoe/") == len(names)


def test_the_readmes_table_is_that_of_the_results() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert readme == published.with_block(readme, published.readme_block()), "run `make results`"


def test_the_notes_name_what_exists() -> None:
    notes = published.read_notes()
    for name, note in [
        *notes.full.items(),
        *notes.small.items(),
        *((name, published.Note()) for name in notes.figures),
    ]:
        recipe = find_recipe(name)
        labels = {f"{v.label} {column}".strip() for v in recipe.variants for column in recipe.measures}
        assert set(note.headline) <= labels, name


def unsettled() -> set[str]:
    """The recipes and scales with files that are not committed: their runs may be going on."""
    listed = subprocess.run(
        ["git", "ls-files", "--modified", "--others", "--exclude-standard", "results"],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    return {"/".join(path.split("/")[1:3]) for path in listed.stdout.splitlines()}


def test_summaries_are_what_the_runs_give() -> None:
    moving = unsettled()
    for shown in published.read_published():
        recipe = recipes()[shown.recipe]
        scale: Any = shown.scale
        if not {shown.folder, f"{recipe.shares}/{scale}"} & moving:
            found = results_of(Choice(recipe, scale, published.OUT)).as_json()
            kept = json.loads((published.OUT / shown.summary).read_text("utf-8"))
            assert json.loads(json.dumps(found)) == kept, f"{shown.folder}: run `make results`"

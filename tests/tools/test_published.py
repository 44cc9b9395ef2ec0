"""What the README and the site say of results is what the files in results/ say."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tools import published, summaries

from eunoe.config import registry
from eunoe.papers import all_exhibits, find_exhibit
from eunoe.papers.exhibit import PlannedRun
from eunoe.papers.found import in_store
from eunoe.papers.results import collect
from eunoe.papers.store import load_keys
from tests.papers.made_up import store, write_run

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import method_pages  # noqa: E402

NOTES = """
readme = ["full.flashback-table1-cifar10: Flashback reaches 24.1%", "full.wsm-table1"]
[full]
flashback-table1-cifar10 = "Tried **this**."
[small]
flashback-table1-cifar10 = "Only small."
"""
NAME = "flashback-table1-cifar10"


def made_up(folder: Path, name: str, runs: list[tuple[PlannedRun, dict[int, float]]]) -> None:
    """Store runs that had these accuracies."""
    for run, accuracy in runs:
        write_run(run, accuracy)
    store(find_exhibit(name), [run for run, _ in runs], folder)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Results of Flashback and FedAvg in full, and of Flashback at small scale."""
    results = tmp_path / "results"
    results.mkdir()
    (results / "notes.toml").write_text(NOTES)
    exhibit, folder = find_exhibit(NAME), tmp_path / "runs"
    flashback = {1: 0.2, 3: 0.3, 7: 0.47, 10: 0.48}
    runs = [
        (exhibit.plan(scale, [0], only="flashback", out=folder)[0], flashback) for scale in exhibit.scales
    ]
    fedavg = exhibit.plan("full", [0], only="fedavg", out=folder)[0]
    made_up(results, NAME, [*runs, (fedavg, {1: 0.1, 85: 0.4})])
    summaries.refresh(results)
    return results


def test_the_readme_gets_the_claims_with_their_verdicts(out: Path) -> None:
    *lines, empty, tally = published.readme_block(out).splitlines()
    claim = "Flashback reaches 24.1% (50% of the target) in fewer rounds than every baseline"
    missing = "(compared: fedavg only)"
    found = "holds in one seed, calibrated on it | +82.00 rounds | 1 | full"
    found += " | 10 to 85 of 150 | FedAvg 40% | cifar10, cnn"
    assert lines[2] == f"| {claim} {missing} | {found} | `{NAME}` |"
    assert len(lines) == 2 + 1
    assert (empty, tally[:19]) == ("", "Verdicts on claims ")
    drawn = (out / f"figures/{NAME}-full.svg").read_text()
    assert "ONLY 10 of 150 rounds: flashback" in drawn


def test_claims_that_no_paper_makes_are_not_counted(tmp_path: Path) -> None:
    """Half of the test images is a target of ours; 85% is the paper's."""
    exhibit = find_exhibit("fedcurv-table1-e10")
    runs = [
        (run, {1: 0.3, 2 + (run.line != "fedcurv"): 0.88, 12: 0.88})
        for run in exhibit.plan("small", [0, 1, 2], out=tmp_path / "runs")
    ]
    results = tmp_path / "results"
    results.mkdir()
    made_up(results, exhibit.name, runs)
    summaries.refresh(results)
    (tally,) = (line for line in published.results_block(results).splitlines() if "three seeds or" in line)
    # Curves that rise as high in their first rounds and end alike make the three of the figure.
    assert "on three seeds or more: 1 seen, 3 no difference;" in tally
    assert "They are on 4 claims" in tally
    assert "The verdicts that say seen: 0 at full scale, 0 at medium scale, 1 at small scale." in tally
    assert "in 1 sets" in tally
    assert "one of them gives 4 verdicts" in tally


def test_without_results_the_readme_says_so(tmp_path: Path) -> None:
    assert published.readme_block(tmp_path) == "No run is in `results/` yet."


def test_only_the_block_between_the_marks_is_replaced() -> None:
    before = f"a\n{published.BEGIN}\nold\n{published.END}\nb\n"
    after = published.with_block(before, "new")
    assert after == f"a\n{published.BEGIN}\n\nnew\n\n{published.END}\nb\n"
    assert published.with_block(after, "new") == after


def test_the_page_keeps_full_and_small_apart(out: Path) -> None:
    claims, numbers = published.results_block(out).split("## The papers' settings")
    assert "| Flashback reaches 45.8%" in claims
    assert "Not run yet: `tce-table1`" in claims
    # Ten of 15 rounds are too few at small scale; nothing is lacking in full.
    (short,) = (line for line in claims.splitlines() if line.startswith("Not tested, as runs"))
    assert f"`{NAME}` (small: 3 of 3)" in short
    assert f"`{NAME}` (full" not in short
    assert "on three seeds or more: none; of these, on trained networks: none. " in claims
    (seen,) = (
        line for line in claims.splitlines() if "`flashback-fig3-table1`" in line and "| full |" in line
    )
    assert "in one seed, calibrated on it" in seen
    small = [line for line in claims.splitlines() if "| small |" in line]
    assert not any("calibrated" in line for line in small)
    full, small = numbers.split("## Numbers at small scale")
    for text in (
        "| flashback 50% | 2 | 3 | +1 | 1 | 10 of 150 |",
        "Tried **this**.",
        "fedavg 95%",
        "-full.svg",
    ):
        assert text in full
        assert text not in small
    for text in (
        "ours (small)",
        "Only small.",
        "10 of 15 |",
        "-small.svg",
        "### flashback-table1-cifar10 (small)",
    ):
        assert text in small
        assert text not in full
    # Figures of the paper are made of the same runs.
    assert "### flashback-fig3-table1\n" in full
    assert full.count(f"`results/runs/{NAME}.parquet`") == full.count("### flashback-")
    assert "### flashback-fig5-table1\n" not in full, "its runs measured nothing of it"


def test_a_methods_rows_stand_beside_fedavgs_at_full_scale(out: Path) -> None:
    rows = summaries.method_rows("flashback", out)
    table = [row for row in rows if row[0].startswith(NAME)]
    assert {row[1].split()[0] for row in rows} == {"fedavg", "flashback"}
    assert [row[:2] for row in table] == [
        ["flashback-table1-cifar10 (full)", f"{method} {share}"]
        for method in ("fedavg", "flashback")
        for share in ("50%", "75%", "95%")
    ]
    assert {row[1].split()[0] for row in summaries.method_rows("fedavg", out)} == {"fedavg"}
    assert summaries.method_rows("moon", out) == []


def test_a_stand_in_is_kept_apart_from_the_papers_numbers(tmp_path: Path) -> None:
    name = "flashback-table1-femnist"
    (run,) = find_exhibit(name).plan("full", [0], True, "fedavg", tmp_path / "runs")
    made_up(tmp_path, name, [(run, {1: 0.2, 150: 0.6})])
    summaries.refresh(tmp_path)
    page = published.results_block(tmp_path)
    assert "not comparable" in page
    assert "| fedavg 50% | omniglot for femnist | 150 | 1 | 150 |" in page


def test_runs_in_folders_are_added_to_the_stored_ones(out: Path, tmp_path: Path) -> None:
    (run,) = find_exhibit(NAME).plan("full", [1], only="flashback", out=tmp_path / "more")
    write_run(run, {1: 0.3})
    assert summaries.add(tmp_path / "more", out) == 1
    keys = load_keys(out / "runs" / f"{NAME}.parquet")
    assert [(key.scale, key.line, key.seed) for key in keys] == [
        ("full", "fedavg", 0),
        ("full", "flashback", 0),
        ("full", "flashback", 1),
        ("small", "flashback", 0),
    ]


def test_every_method_has_a_page_with_all_its_parts() -> None:
    names = registry.names("method")
    assert set(method_pages.WHEN_IT_HELPS) == set(names)
    for name in names:
        page = method_pages.method_page(name)
        # Clients that train alone have no model to test on digits' test set.
        measured = "fedavg" if name == "local" else name
        for part in ("```text", "## When it helps", "## Use", "| `", "## Cost", f"| {measured} + ce |"):
            assert part in page, (name, part)
    assert method_pages.overview().count("](../src/eunoe/") == len(names)


def test_the_readme_and_the_page_are_those_of_the_results() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    block = published.readme_block()
    assert sum(line.startswith("|") for line in block.splitlines()) <= 2 + 10
    assert readme == published.with_block(readme, block), "run `make results`"
    page = (ROOT / "docs/results.md").read_text("utf-8")
    assert page == published.with_block(published.PAGE, published.results_block()), "run `make results`"
    for link in re.findall(r"\]\(\.\./results/(.*?)\)", page):
        assert (summaries.OUT / link).exists(), link


def test_the_notes_name_what_exists() -> None:
    notes = summaries.read_notes()
    shown = [entry.partition(": ")[0].partition(".")[2] for entry in notes.readme]
    for name in shown:
        find_exhibit(name)
    stored = {(one.scale, one.exhibit) for one in summaries.read_published()}
    by_scale = {"full": notes.full, "medium": notes.medium, "small": notes.small}
    assert {(scale, name) for scale, named in by_scale.items() for name in named} <= stored


def test_summaries_are_what_the_stored_runs_give() -> None:
    kept = json.loads((summaries.OUT / "summary.json").read_text("utf-8"))
    found: dict[str, dict[str, Any]] = {}
    for exhibit in all_exhibits().values():
        for scale in exhibit.scales:
            collected = collect(exhibit, scale, in_store(exhibit, scale, summaries.OUT))
            if collected.rows:
                results = collected.as_json()
                found.setdefault(exhibit.name, {})[scale] = json.loads(json.dumps(results))
    assert found == kept, "run `make results`"


def test_the_stored_results_stay_small() -> None:
    files = [path for path in summaries.OUT.rglob("*") if path.is_file()]
    assert len(files) <= 150
    assert sum(path.stat().st_size for path in files) <= 16_000_000


def test_every_stored_run_is_of_an_exhibit() -> None:
    for path in (summaries.OUT / "runs").iterdir():
        shared = [e for e in all_exhibits().values() if e.owner == path.stem]
        for key in load_keys(path):
            assert any(
                (key.line, key.stand_in) == (run.line, run.stand_in)
                for exhibit in shared
                for stood in (False, True)
                for scale in exhibit.scales
                if scale == key.scale
                for run in exhibit.plan(scale, [0], stood)
            ), (path, key)

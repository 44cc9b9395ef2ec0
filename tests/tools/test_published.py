"""What the README and the site say of results is what the files in results/ say."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from tools import published, summaries

from eunoe.config import registry
from eunoe_papers.experiment import PlannedRun
from eunoe_papers.loader import experiments, find_experiment, papers
from eunoe_papers.results import collect
from eunoe_papers.store import find_stored, load_keys
from tests.papers.made_up import store, write_run

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT / "docs"))
import method_pages  # noqa: E402

NOTES = """
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
    store(find_experiment(name), [run for run, _ in runs], folder)


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """Results of Flashback and FedAvg in full, and of Flashback at small scale."""
    results = tmp_path / "results"
    results.mkdir()
    (results / "notes.toml").write_text(NOTES)
    experiment, folder = find_experiment(NAME), tmp_path / "runs"
    flashback = {1: 0.2, 3: 0.3, 7: 0.47, 10: 0.48}
    runs = [
        (experiment.plan(scale, [0], only="flashback", out=folder)[0], flashback)
        for scale in experiment.scales
    ]
    fedavg = experiment.plan("full", [0], only="fedavg", out=folder)[0]
    made_up(results, NAME, [*runs, (fedavg, {1: 0.1, 85: 0.4})])
    summaries.refresh(results)
    return results


def three_seeds(folder: Path, name: str, fast: str) -> Path:
    """Results of three seeds in which one arm reaches 88% in round 2 and the others in round 3."""
    experiment, results = find_experiment(name), folder / "results"
    runs = [
        (run, {1: 0.3, 2 + (run.line != fast): 0.88, run.values["rounds"]: 0.88})
        for run in experiment.plan("small", [0, 1, 2], out=folder / "runs")
    ]
    results.mkdir()
    made_up(results, name, runs)
    summaries.refresh(results)
    return results


def test_claims_that_no_paper_makes_are_not_counted(tmp_path: Path) -> None:
    """Half of the test images is a target of ours; 85% is the paper's."""
    results = three_seeds(tmp_path, "fedcurv-table1-e10", "fedcurv")
    tally = published.format_tally(published.read_judged(results))
    # Curves that rise as high in their first rounds and end alike make the three of the figure.
    assert tally == (
        "4 claims of five papers were tested: 1 confirmed, 3 inconclusive, 0 contradicted "
        "(0 at full scale, 0 at medium scale, 4 at small scale)."
    )
    assert published.readme_block(results) == tally
    page = published.paper_page("fedcurv", results)
    assert "- with 10 local epochs FedCurv reaches 50% in fewer rounds" in page
    notes = '[small]\nfedcurv-table1-e10 = "Noted."\n'
    (results / "notes.toml").write_text(notes)
    published.paper_page.cache_clear()
    assert "Noted." in published.paper_page("fedcurv", results)


def test_a_claim_is_shown_once_with_the_papers_value_and_ours(tmp_path: Path) -> None:
    results = three_seeds(tmp_path, "fedcurv-table1-e10", "fedcurv")
    page = published.results_page(results)
    (line,) = (line for line in page.splitlines() if "FedCurv reaches 85%" in line)
    # The paper has 27 rounds for FedCurv, 33 for FedProx and 43 for FedAvg.
    assert "| +6.0 | +1.0 rounds [+1.0, +1.0] | 3 | small | confirmed |" in line
    assert "[fedcurv-table1-e10](papers/fedcurv.md#fedcurv-table1-e10-small)" in line
    assert "### fedcurv-table1-e10 (small)" in published.paper_page("fedcurv", results)
    assert "Run, but claims not tested: fedcurv-table1-e10 (4)." in page


def test_the_papers_value_is_of_the_arms_that_we_compare(tmp_path: Path) -> None:
    """Table 3 has 0.608 and 0.624 on CIFAR-10, 0.198 and 0.274 on CIFAR-100."""
    experiment, results = find_experiment("wsm-table3"), tmp_path / "results"
    arms = {"cifar100 fedavg": 0.2, "cifar100 fedavg+wsm": 0.25}
    runs = [
        (run, {1: 0.1, 4000: accuracy})
        for arm, accuracy in arms.items()
        for run in experiment.plan("full", [0, 1, 2], only=arm, out=tmp_path / "runs")
        if run.line == arm
    ]
    results.mkdir()
    made_up(results, "wsm-table3", runs)
    summaries.refresh(results)
    (line,) = (line for line in published.results_page(results).splitlines() if "WSM beats FedAvg" in line)
    assert (
        "with LeNet on CIFAR-100 (with crop and flip) | +7.6 | +5.0 [+5.0, +5.0] | 3 | full | confirmed |"
        in line
    )


def test_a_papers_page_ends_with_three_sentences() -> None:
    assert list(summaries.read_notes().conclusions) == list(papers())
    for paper, sentences in summaries.read_notes().conclusions.items():
        assert all(sentence.endswith(".") for sentence in sentences)
        parts = ("Holds", "Does not hold", "Not tested here")
        end = "\n".join(f"- **{part}:** {text}" for part, text in zip(parts, sentences, strict=True))
        assert published.paper_page(paper).endswith(f"## Conclusion\n\n{end}\n")


def test_the_figure_has_a_row_for_each_claim(tmp_path: Path) -> None:
    results = three_seeds(tmp_path, "fedcurv-table1-e10", "fedcurv")
    published.draw_claims(published.read_judged(results), results / summaries.CLAIMS)
    drawn = (results / summaries.CLAIMS).read_text()
    assert "fedcurv-table1-e10 (small): with 10 local epochs FedCurv reaches 85%" in drawn
    assert "effect in rounds" in drawn
    assert list(summaries.list_figures(results)) == [summaries.CLAIMS]


def test_without_results_nothing_is_counted(tmp_path: Path) -> None:
    assert published.readme_block(tmp_path).startswith("0 claims")
    published.draw_claims([], tmp_path / summaries.CLAIMS)
    assert not (tmp_path / summaries.CLAIMS).exists()
    assert "## Not run yet" in published.paper_page("tce", tmp_path)


def test_only_the_block_between_the_marks_is_replaced() -> None:
    before = f"a\n{published.BEGIN}\nold\n{published.END}\nb\n"
    after = published.with_block(before, "new")
    assert after == f"a\n{published.BEGIN}\n\nnew\n\n{published.END}\nb\n"
    assert published.with_block(after, "new") == after
    assert published.with_block("no marks", "new") == "no marks"


def test_a_paper_has_its_numbers_and_notes_by_scale(out: Path) -> None:
    page = published.paper_page("flashback", out)
    full, small = page.split("### flashback-table1-cifar10 (small)")
    assert "| arm | 50%: paper / ours | 75%: paper / ours | 95%: paper / ours | seeds |" in full
    assert "| flashback | 2 / 3 | 4 / 7 | 10 / 7 | 1 |" in full
    assert "Tried **this**." in full
    assert "-full.svg" in full
    assert "Only small." in small
    assert "-small.svg" not in page
    # Figures of the paper are made of the same runs.
    without = page.split("### Without notes")[1]
    assert "`flashback-fig3-table1` (full)" in without
    assert "`flashback-fig5-table1` (full)" not in without, "its runs measured nothing of it"
    drawn = (out / f"figures/{NAME}-full.svg").read_text()
    assert "ONLY 10 of 150 rounds: flashback" in drawn


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
    (run,) = find_experiment(name).plan("full", [0], True, "fedavg", tmp_path / "runs")
    made_up(tmp_path, name, [(run, {1: 0.2, 150: 0.6})])
    summaries.refresh(tmp_path)
    assert "| fedavg 50% |" not in published.paper_page("flashback", tmp_path)


def test_runs_in_folders_are_added_to_the_stored_ones(out: Path, tmp_path: Path) -> None:
    (run,) = find_experiment(NAME).plan("full", [1], only="flashback", out=tmp_path / "more")
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
        for part in ("```text", "## When it helps", "## Use", "| `", "## Cost"):
            assert part in page, (name, part)
    assert "\n| quick | scaffold | " in method_pages.method_page("scaffold")
    assert "\n| quick | server momentum | " in method_pages.method_page("fedavgm")
    assert method_pages.overview().count("](../src/eunoe/") == len(names)


def test_the_readme_and_the_pages_are_those_of_the_results() -> None:
    readme = (ROOT / "README.md").read_text("utf-8")
    assert readme == published.with_block(readme, published.readme_block()), "run `make results`"
    for path, text in published.pages().items():
        assert (ROOT / "docs" / path).read_text("utf-8") == text, "run `make results`"
        for link in re.findall(r"results/(figures/.*?)\)", text):
            assert (summaries.OUT / link).exists(), link
        for paper, anchor in re.findall(r"papers/(\w+)\.md#([^)]+)\)", text):
            headings = re.findall(r"### (.*)", published.paper_page(paper))
            assert anchor in [re.sub(r"[^a-z0-9-]", "", h.lower().replace(" ", "-")) for h in headings]


def test_the_notes_name_what_exists() -> None:
    notes = summaries.read_notes()
    stored = {(one.scale, one.experiment) for one in summaries.read_published()}
    by_scale = {"full": notes.full, "medium": notes.medium, "small": notes.small}
    assert {(scale, name) for scale, named in by_scale.items() for name in named} <= stored


def test_summaries_are_what_the_stored_runs_give() -> None:
    kept = json.loads((summaries.OUT / "summary.json").read_text("utf-8"))
    found: dict[str, dict[str, Any]] = {}
    for experiment in experiments().values():
        for scale in experiment.scales:
            collected = collect(experiment, scale, find_stored(experiment, scale, summaries.OUT))
            if collected.rows:
                results = collected.as_json()
                found.setdefault(experiment.name, {})[scale] = json.loads(json.dumps(results))
    assert found == kept, "run `make results`"


def test_the_stored_results_stay_small() -> None:
    files = [path for path in summaries.OUT.rglob("*") if path.is_file()]
    assert len(files) <= 150
    assert sum(path.stat().st_size for path in files) <= 8_000_000


def test_the_pages_are_short() -> None:
    for path, text in published.pages().items():
        assert len(text.split()) <= (3_000 if path.name == "results.md" else 1_200), path


def test_a_sentence_that_a_paper_repeats_counts_once() -> None:
    judged = published.read_judged()
    counted = [
        one for one in judged if one.counted and one.claim.sentence.startswith("Flashback forgets least")
    ]
    assert [(one.experiment.name, one.scale) for one in counted] == [("flashback-fig4-table1", "full")]
    # What follows from the partition is not counted either.
    assert not any(one.counted for one in judged if one.claim.unit == "classes")


def test_every_stored_run_is_of_an_experiment() -> None:
    for path in (summaries.OUT / "runs").iterdir():
        shared = [e for e in experiments().values() if e.owner == path.stem]
        for key in load_keys(path):
            assert any(
                (key.line, key.stand_in) == (run.line, run.stand_in)
                for experiment in shared
                for stood in (False, True)
                for scale in experiment.scales
                if scale == key.scale
                for run in experiment.plan(scale, [0], stood)
            ), (path, key)

"""Pages made from results/: docs/results.md, a page for each paper in docs/papers, and the README's line.

`make results` (python -m tools.published) sums up every run in results/ again and rewrites the pages;
`python -m tools.published add FOLDER` first stores the runs that `eunoe reproduce` left in a folder. The
notes on the pages are in results/notes.toml.
"""

import math
import re
import sys
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import altair as alt

from eunoe.analysis.tables import Table
from eunoe_papers.claims import Claim, Label
from eunoe_papers.drawing import write_svg
from eunoe_papers.experiment import SCALES, Experiment, Scale
from eunoe_papers.loader import experiments, find_experiment, papers
from eunoe_papers.reproduce import describe_setting
from eunoe_papers.results import Row
from tools.summaries import CLAIMS, OUT, Published, add, read_notes, read_published, refresh

ROOT = OUT.parent
BEGIN, END = "<!-- made by `make results` from results/ -->", "<!-- end of what `make results` makes -->"
WORDS = ("confirmed", "inconclusive", "contradicted")
CONCLUSION = ("Holds", "Does not hold", "Not tested here")
NAMES = {
    "tce": "TCE",
    "thesis": "Thesis",
    "wsm": "WSM",
    "fedcurv": "FedCurv",
    "flashback": "Flashback",
    "streams": "Streams",
}
PAGE = """# Results: which claims of the papers hold?

```sh
eunoe papers wsm-table3     # its setting, claims and numbers
```

In a clone, `eunoe reproduce NAME --report` prints the paper's numbers, ours and the verdicts from `results/`.

{contents}

{tally} In the figure and in the tables a claim stands once, at the largest scale at which it was tested.

![Every claim with its effect and 95% interval](../results/figures/claims.svg)

## How claims are judged

For each seed we compute the difference between two arms that were trained on the same partition. A claim is
*confirmed* if the 95% t-interval of the mean difference is above zero, *contradicted* if it is below, and
*inconclusive* otherwise. It is *not tested* with fewer than three seeds, or if FedAvg reaches less than a
third of the accuracy of central training or less than twice chance. A claim of equality is confirmed if the
interval lies within the margin that it names.

- Rounds to a target are counted up to a common horizon: the statistic is min(rounds, H), where H is the
  length of the shortest run that did not reach the target. `eunoe reproduce NAME --report` says in how
  many seeds each arm reached it. If no arm reaches it within H rounds, the claim is not tested.
- All seeds are compared on the same arms. Of several rivals the best counts, of several data sets or
  learning rates the worst, in each seed, unless a claim speaks of a mean. The paper's value is computed
  from its numbers for the same arms; "not run" and "not compared" name what is left out.
- A seed in which only the arm that should be ahead diverged counts against the claim.
- Settings were chosen on validation data or on other seeds. Seeds on which a setting or a claim was
  chosen are left out; exceptions are listed with the experiment. Each method has the learning rate that
  is best on validation data.
- Full scale has the paper's data, network, clients and planned rounds. Names with `-lenet` have LeNet in
  place of ResNet-18. Medium and small scale are shorter runs of the same algorithm with narrower networks
  and fewer or smaller images; there a run counts only if it has all of its rounds. "300 of 2000" rounds:
  stopped early.
- Claims that follow from the partition alone, that repeat another one or that no paper makes are shown on
  the papers' pages and not counted.
- Intervals from three seeds are fragile: five claims were tested on seeds 0 to 2 and again on seeds 3 to 9.
  The two that were confirmed became inconclusive, and the three that were inconclusive were decided
  ([wsm-table5](papers/wsm.md#wsm-table5-small)). With {tests} tests, the expected number of false
  confirmations is about {chance}.
"""


@dataclass(frozen=True)
class Judged:
    """A claim with its verdict at one scale."""

    experiment: Experiment
    claim: Claim
    scale: Scale
    summary: dict[str, Any]
    repeated: bool = False

    @property
    def word(self) -> str:
        return str(self.summary["verdict"])

    @property
    def counted(self) -> bool:
        """Whether it is a claim of a paper that has a verdict of its own."""
        return self.word in WORDS and self.summary["counted"] and not self.repeated

    @property
    def paper_value(self) -> str:
        """The effect by the paper's numbers for the cells that we compare, if it prints them."""
        if self.claim.spread:
            return ""
        printed = own_numbers(self.experiment)
        compared = {cell: value for cell, value in printed.items() if str(cell) in self.summary["compared"]}
        comparison = self.claim.compare(compared)
        if comparison is None or math.isnan(comparison.value):
            return ""
        return f"{comparison.value * (100 if self.claim.unit == 'points' else 1):+.1f}"

    @property
    def effect(self) -> str:
        """Our effect with its interval."""
        scale, unit = (100, "") if self.claim.unit == "points" else (1, f" {self.claim.unit}")
        mean, low, high = (None if value is None else scale * value for value in self.summary["effect"])
        if mean is None:
            return "diverged"
        return f"{mean:+.1f}{unit}" + ("" if low is None else f" [{low:+.1f}, {high:+.1f}]")


def own_numbers(experiment: Experiment) -> dict[Label, float]:
    """Return the values that the paper prints for the cells of an experiment."""
    cells = [arm.label.replace(measure=column) for arm in experiment.arms for column in experiment.measures]
    targets = {cell: experiment.target(cell) for cell in cells}
    return {cell: target.value for cell, target in targets.items() if target and target.value is not None}


def read_judged(out: Path = OUT) -> list[Judged]:
    """Return every claim once, at the largest scale at which it was tested."""
    best: dict[tuple[str, int], Judged] = {}
    for shown in read_published(out):
        experiment = find_experiment(shown.experiment)
        for place, (claim, summary) in enumerate(zip(experiment.claims, shown.claims, strict=True)):
            judged = Judged(experiment, claim, shown.scale, summary)
            larger = best.get((experiment.name, place))
            if larger is None or (larger.word not in WORDS and judged.word in WORDS):
                best[experiment.name, place] = judged
    known = set()
    for key, judged in sorted(best.items(), key=lambda item: SCALES.index(item[1].scale)):
        # A sentence that a paper's experiments repeat counts once, at the largest scale.
        sentence = (judged.experiment.source.paper, re.sub(r" \(.*", "", judged.claim.sentence))
        if judged.counted and sentence in known:
            best[key] = replace(judged, repeated=True)
        known |= {sentence} if judged.counted else set()
    order = {name: place for place, name in enumerate(experiments())}
    return [best[key] for key in sorted(best, key=lambda key: (order[key[0]], key[1]))]


def format_tally(judged: list[Judged]) -> str:
    """Count the claims of the papers by verdict."""
    words = Counter(claim.word for claim in judged if claim.counted)
    by_word = ", ".join(f"{words[word]} {word}" for word in WORDS)
    scales = Counter(claim.scale for claim in judged if claim.counted)
    by_scale = ", ".join(f"{scales[scale]} at {scale} scale" for scale in ("full", "medium", "small"))
    return f"{words.total()} claims of five papers were tested: {by_word} ({by_scale})."


def draw_claims(judged: list[Judged], path: Path) -> None:
    """Draw the effect and interval of every counted claim, a row each, in a panel for each unit."""
    rows = []
    for place, claim in enumerate(claim for claim in judged if claim.counted):
        scale = 100 if claim.claim.unit == "points" else 1
        mean, low, high = (scale * value for value in claim.summary["effect"])
        sentence = re.sub(r" \(.*", "", claim.claim.sentence)
        name = f"{claim.experiment.name} ({claim.scale}): {sentence}"
        row = {"claim": name[:96], "place": place, "verdict": claim.word, "unit": claim.claim.unit}
        rows.append({**row, "mean": mean, "low": low, "high": high})
    colors = alt.Scale(domain=list(WORDS), range=["#1a7f5a", "#8a8a8a", "#c0392b"])
    panels = []
    for unit in dict.fromkeys(str(row["unit"]) for row in rows):
        base = alt.Chart(alt.InlineData(values=[row for row in rows if row["unit"] == unit])).encode(
            alt.Y("claim:N", sort=alt.SortField("place"), title=None, axis=alt.Axis(labelLimit=640)),
            alt.Color("verdict:N", scale=colors, title=None),
        )
        interval = base.mark_rule(strokeWidth=1.5).encode(
            alt.X("low:Q", title=f"effect in {unit.removeprefix('of ')}"), alt.X2("high:Q")
        )
        zero = (
            alt.Chart(alt.InlineData(values=[{"zero": 0}])).mark_rule(color="#bbbbbb").encode(alt.X("zero:Q"))
        )
        points = base.mark_point(filled=True, size=36, opacity=1).encode(alt.X("mean:Q"))
        panels.append((zero + interval + points).properties(width=300, height=alt.Step(13)))
    if panels:
        write_svg(alt.vconcat(*panels).resolve_scale(color="shared"), path)


def _link(name: str, scale: str, out: Path) -> str:
    """Return a link to the section of an experiment, or to those without notes."""
    paper = find_experiment(name).source.paper
    heading = f"### {name} ({scale})"
    anchor = f"{name}-{scale}" if heading in paper_page(paper, out) else "without-notes"
    return f"[{name}](papers/{paper}.md#{re.sub('[^a-z0-9-]', '', anchor.lower())})"


def results_page(out: Path = OUT) -> str:
    """Return the page of all claims, with a table for each paper."""
    judged = read_judged(out)
    tests = sum(claim.counted for claim in judged)
    contents = ["[How claims are judged](#how-claims-are-judged)"]
    contents += [f"[{NAMES[paper]}](#{NAMES[paper].lower()})" for paper in papers()]
    sections = [
        PAGE.format(
            contents=" · ".join(contents), tally=format_tally(judged), tests=tests, chance=round(tests / 40)
        ).rstrip()
    ]
    for paper in papers():
        mine = [claim for claim in judged if claim.experiment.source.paper == paper]
        rows = [
            [
                _link(claim.experiment.name, claim.scale, out),
                claim.summary["claim"],
                claim.paper_value,
                claim.effect,
                str(claim.summary["seeds"]),
                claim.scale,
                claim.word,
            ]
            for claim in mine
            if claim.counted
        ]
        missing = Counter(claim.experiment.name for claim in mine if claim.word not in WORDS)
        sections.append(
            f"## {NAMES[paper]}\n\n{papers()[paper].title}. [Settings and notes](papers/{paper}.md)."
        )
        if rows:
            headings = ["experiment", "claim", "paper", "ours (95% interval)", "seeds", "scale", "verdict"]
            sections.append(Table(headings, rows).markdown())
        if missing:
            names = [f"{name} ({count})" if count > 1 else name for name, count in missing.items()]
            sections.append(f"Run, but claims not tested: {', '.join(names)}.")
    sections.append("See also: [Papers and `eunoe reproduce`](papers.md), [options on digits](methods.md).")
    return "\n\n".join(sections) + "\n"


@cache
def paper_page(paper: str, out: Path = OUT) -> str:
    """Return the page of a paper: its settings, what was chosen, and the notes on its experiments."""
    notes, published = read_notes(out), read_published(out)
    mine = [shown for shown in published if find_experiment(shown.experiment).source.paper == paper]
    about = papers()[paper]
    example = (
        mine[0].experiment if mine else next(n for n, e in experiments().items() if e.source.paper == paper)
    )
    lines = [
        f"# {NAMES[paper]}: what was run, and what came out?",
        f"```sh\neunoe papers {example}\neunoe reproduce {example} --report\n```",
        f"{about.title}. Verdicts are in the [results](../results.md#{NAMES[paper].lower()}); "
        "[papers](../papers.md) explains the two commands.",
        "## Choices that the paper leaves open",
        "\n".join(f"- {line}" for line in about.chosen),
        "## Experiments",
    ]
    silent = []
    for shown in mine:
        section = _section(shown, notes.of(shown.experiment, shown.scale), out)
        lines += section
        silent += [f"`{shown.experiment}` ({shown.scale})"] * (not section)
    if silent:
        lines += ["### Without notes", ", ".join(silent) + "."]
    ran = {shown.experiment for shown in mine}
    absent = [n for n, e in experiments().items() if e.source.paper == paper and n not in ran]
    if absent:
        lines += ["## Not run yet", ", ".join(f"`{name}`" for name in absent) + "."]
    if paper in notes.conclusions:
        parts = zip(CONCLUSION, notes.conclusions[paper], strict=True)
        lines += ["## Conclusion", "\n".join(f"- **{part}:** {text}" for part, text in parts)]
    return "\n\n".join(lines) + "\n"


def _section(shown: Published, note: str, out: Path) -> list[str]:
    """Return the numbers and notes of an experiment, or claims that are not counted; empty without any."""
    experiment = find_experiment(shown.experiment)
    extra = [
        f"- {claim['claim']}: {claim['verdict']}, {claim['estimate']}."
        for claim in shown.claims
        if not note and claim["verdict"] in WORDS and not claim["counted"]
    ]
    rows = [row for row in shown.rows if re.search(r"\d", row.paper) and shown.scale == "full"]
    if not (note or extra or rows):
        return []
    about = f"{experiment.source.where}. " + f"{experiment.differs}. " * bool(experiment.differs)
    if shown.scale != "full":
        about += f"{describe_setting(experiment.plan(shown.scale, [0]))}. ".capitalize()
    lines = [f"### {shown.experiment} ({shown.scale})", about.strip()]
    lines += ["\n".join(extra)] * bool(extra)
    if rows:
        lines.append(_numbers(rows))
    if (out / shown.figure).exists():
        lines.append(f"[Figure](../../results/{shown.figure})")
    return [*lines, *([note.strip()] if note else [])]


def _numbers(rows: list[Row]) -> str:
    """Return a table with a row for each arm: the paper's number, ours and our seeds, for each measure."""
    columns = list(dict.fromkeys(row.label.removeprefix(row.line).strip() for row in rows))
    by_cell = {(row.line, row.label.removeprefix(row.line).strip()): row for row in rows}
    arms = {row.line: row.count for row in rows}
    cells = []
    for arm, seeds in arms.items():
        shown = [by_cell.get((arm, column)) for column in columns]
        cells.append([arm, *(f"{row.paper} / {row.ours}" if row else "" for row in shown), seeds])
    headings = ["paper / ours" if not column else f"{column}: paper / ours" for column in columns]
    return Table(["arm", *headings, "seeds"], cells).markdown()


def with_block(text: str, block: str) -> str:
    """Return a text with the part between the two marks replaced; unchanged if it has none."""
    if BEGIN not in text:
        return text
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{rest.split(END)[1]}"


def readme_block(out: Path = OUT) -> str:
    """Return what the README says of the claims."""
    return format_tally(read_judged(out))


def pages(out: Path = OUT) -> dict[Path, str]:
    """Return all pages by their path in docs/."""
    by_paper = {Path("papers", f"{paper}.md"): paper_page(paper, out) for paper in papers()}
    return {Path("results.md"): results_page(out), **by_paper}


def main() -> None:
    if sys.argv[1:2] == ["add"]:
        print(f"stored {add(Path(sys.argv[2]))}")
    refresh()
    draw_claims(read_judged(), OUT / CLAIMS)
    for path, text in pages().items():
        (ROOT / "docs" / path).parent.mkdir(exist_ok=True)
        (ROOT / "docs" / path).write_text(text, "utf-8")
    readme = ROOT / "README.md"
    readme.write_text(with_block(readme.read_text("utf-8"), readme_block()), "utf-8")


if __name__ == "__main__":
    main()

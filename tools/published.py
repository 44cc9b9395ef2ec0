"""The papers' claims judged and their numbers beside ours, from results/, for the README and docs/results.md.

`make results` (python -m tools.published) sums up and draws every run in results/ again and rewrites both;
`python -m tools.published add FOLDER` first stores the runs that `eunoe reproduce` left in a folder. What is
said about a difference and which claims the README shows is in results/notes.toml.
"""

import json
import sys
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from eunoe.analysis.tables import Table
from eunoe.papers import all_exhibits, find_exhibit
from eunoe.papers.exhibit import SCALES
from eunoe.papers.library import Paper, library
from eunoe.papers.results import Row
from eunoe.papers.setting import in_words
from tools.summaries import OUT, Published, add, read_notes, read_published, refresh

ROOT = OUT.parent
MEASURED = ROOT / "docs" / "measured" / "options-on-digits.json"
BEGIN, END = "<!-- made by `make results` from results/ -->", "<!-- end of what `make results` makes -->"
TITLES = {
    "full": "Numbers at full scale",
    "medium": "Numbers at medium scale: the papers' algorithms on smaller networks and images",
    "small": "Numbers at small scale, which is not the papers' setting",
}
PAGE = f"""# Results

The claims of five papers, judged on runs that are stored in `results/`, and the papers' numbers beside ours.
`runs/NAME.parquet` has the config, the metrics and the probes of every run by its line and seed,
`summary.json` what is shown below. `eunoe reproduce NAME --report` prints one of the tables.

## How claims are judged

A claim is a sentence and a number that is positive where it holds: the difference of two methods in runs of
the same seed. If a claim is about several data sets or settings, the smallest difference counts, unless it
speaks of a mean. Over seeds it has a mean and a 95% interval (Student's t, paired by seed).

| verdict | meaning |
| --- | --- |
| seen | the interval is above zero |
| contradicted | the interval is below zero |
| undecided | the interval has zero in it |
| no difference | what is compared is equal in every seed |
| holds in one seed, does not hold in one seed | one seed, so there is no interval |
| untrained: no verdict | the networks had not learned enough |
| not tested | what it compares was not run, or not for long enough, or no method got there |

- Trained: FedAvg of that table or figure reaches, at that scale, a third of the accuracy that the same
  network has when all data are in one place ([trained.py](../src/eunoe/papers/trained.py)), and twice that
  of guessing. Where there is no such run on smaller images, what the network has on whole ones counts,
  which is stricter; where there is none at all, a third of 100%. What FedAvg reaches (column *accuracy*) is
  the median of the last third of its tested rounds, in the lines and seeds that the claim compares, at the
  best of their learning rates and norms, and where the clients are varied, in the setting where it is least.
  Where a claim compares other methods only, FedAvg's lines of these seeds count, and where there are none,
  the median one of the lines. Where a claim is about a number of first rounds, what FedAvg reaches by then
  is given too: it may be little.
- Below full scale a run counts only if it has all of its rounds.
- Intervals from three seeds are fragile. Two forgetting claims of LeNet were seen on three seeds, with
  intervals of 4 and 5 points, and were not on seven others (`wsm-table5` at small scale has the numbers).
- So are rounds to a target. Of Flashback's small runs with seed 0, one passes 45.8% in round 13
  (`flashback-table1-cifar10`), another not within 20 (`flashback-fig3`): the same setting on another
  processor, with a later version. They start apart by round-off, which training amplifies.
- All seeds are judged on the same lines: what was run in some of them only is left out, and where nothing is
  left to compare, the seed with the most lines is judged alone.
- A difference from the best of several rivals, or in the worst of several rows, is taken in each seed. That
  makes "seen" harder to reach and "contradicted" easier.
- Where each method has its best learning rate, that is the one with the best accuracy on validation data.
- Rounds to an accuracy: a target that a run did not reach stays censored. It counts as the round after the
  run's last, the least that it can be, and the verdict says who did not get there, and in how many seeds;
  the interval is then that of these bounds. A seed in which no method got there is a tie; one in which a
  run stopped before it could decide is left out.
- A seed in which only the method that should be ahead diverged counts against the claim; one in which only
  the other diverged is left out, since there is no number for how far ahead the first is.
- About equal: the interval of the difference lies within the margin that the claim names.
- If a setting that the paper leaves open was chosen on a seed, or a claim was added after that seed had been
  seen, it is left out of the verdict (the numbers further down show all); where there is no other, the
  verdict says "calibrated".
- How much results differ between seeds is compared by their distances from the median over seeds, paired by
  seed, with five seeds at least.
- "Compared" and "not compared" behind a claim say which of the methods that it speaks of the verdict is on;
  others may have run in some seeds, which the numbers further down show.
- Scale: *full* has the paper's data and network, clients and planned rounds, and where it has not, a line
  "Here:" says so: above all, names with `-lenet` have LeNet in place of ResNet-18, and 30 clients those of
  `wsm-fig4-lenet`'s runs. `stream-`, `central-bounds`, `fednova-identity` and `wsm-table3-ahead` are settings
  of ours. *Medium* and *small* are shorter runs of the same algorithm with narrower networks, fewer or
  smaller images. A run of fewer rounds than planned is shown with both numbers.
- Where a paper gives no number for what it says, the measure and its threshold are ours, such as the 5 points
  of a round of FedAvg, or how many learning rates come within 2, 3 and 5 points, which the TCE paper counts
  and the WSM paper puts in words.
- Nothing was chosen on test data for these comparisons except where the notes say so, and except lengths:
  LeNet's small runs have 60 rounds after a trial of FedAvg alone on seed 100 whose test curve was seen, and
  so have the medium runs of norms and losses their 100 rounds (FedAvg with group norm); the small runs of
  Flashback's figures first had 4 to 8 rounds, and were planned with 20 to 40 after those had been seen,
  because FedAvg was untrained in them and fine-tuning had no time to collapse; T^2 is compared over 15
  rounds because 12 had left FedAvg untrained, and is to be compared over 60 after trials on seeds 11 and
  12; LeNet's images were halved after a trial of FedAvg on them, and there it is trained if it has a third
  of what central training reaches on such images; FEMNIST has 30 rounds and 16 public writers after a first
  run of FedAvg and Flashback had been seen. LeNet's small runs have the larger ones of Table 5's learning
  rates, with which it learns something in 60 rounds; 0.1 and 0.3 came when the largest of three had turned
  out best for every method.
- The seed on which Flashback's stopping rule was chosen, at full scale, counts at small scale like any
  other.

{BEGIN}
{END}
"""


def readme_block(out: Path = OUT) -> str:
    """The claims that the README shows, each with its verdict over the seeds, and how all others fared.

    The notes name them as SCALE.NAME, or SCALE.NAME: with the beginning of one claim.
    """
    published = read_published(out)
    by_name = {f"{shown.scale}.{shown.exhibit}": shown for shown in published}
    rows: list[list[str]] = []
    for entry in read_notes(out).readme:
        name, _, beginning = entry.partition(": ")
        if name in by_name:
            rows += [row for row in _claims(by_name[name]) if row[0].startswith(beginning)]
    if not rows:
        return "No run is in `results/` yet."
    return f"{Table(CLAIM_COLUMNS, rows).markdown()}\n\n{_tally(published)}"


WITH_INTERVAL = ("seen", "undecided", "contradicted", "no difference")
NO_VERDICT = ("untrained: no verdict", "not tested")
CLAIM_COLUMNS = [
    *("claim", "verdict", "by how much (95% interval)", "seeds", "scale", "rounds", "accuracy"),
    *("data, network", "of"),
]


def _claims(shown: Published) -> list[list[str]]:
    """The claims of an exhibit that have a verdict, as rows of a table."""
    return [
        [
            claim["claim"],
            claim["verdict"],
            claim["estimate"] + f" ({claim['not_reached']})" * bool(claim["not_reached"]),
            str(claim["seeds"]),
            shown.scale,
            claim["rounds"],
            "; ".join(dict.fromkeys(claim["reached"])),
            "; ".join(claim["networks"]),
            f"`{shown.exhibit}`",
        ]
        for claim in shown.claims
        if claim["verdict"] not in NO_VERDICT
    ]


def _judged(published: list[Published]) -> list[str]:
    """Every claim with a verdict, paper by paper, and where there is none."""
    lines = []
    for name, paper in library().papers.items():
        mine = [exhibit for exhibit in all_exhibits() if find_exhibit(exhibit).source.paper == name]
        shown = [one for one in published if one.exhibit in mine]
        # Those that have an interval come first; full scale before smaller ones.
        rows = sorted((row for one in shown for row in _claims(one)), key=lambda row: int(row[3]) < 2)
        lines.append(f"### {paper.title}")
        lines += [Table(CLAIM_COLUMNS, rows).markdown()] * bool(rows)
        absent = [f"`{exhibit}`" for exhibit in mine if exhibit not in [one.exhibit for one in shown]]
        without = {
            "Untrained: no verdict": _counts(shown, lambda claim: claim["verdict"] == NO_VERDICT[0]),
            "Not tested, as no method got there": _counts(shown, lambda claim: bool(claim["nobody"])),
            "Not tested, as runs are missing or too short": _counts(
                shown, lambda claim: claim["verdict"] == NO_VERDICT[1] and not claim["nobody"]
            ),
            "Not run yet": absent,
        }
        lines += [f"{reason}: {', '.join(names)}." for reason, names in without.items() if names]
    return ["## The claims, paper by paper", _tally(published), *lines]


def _counts(published: list[Published], has: Callable[[Mapping[str, Any]], bool]) -> list[str]:
    """The exhibits some of whose claims have a property, with how many of them do."""
    found = [(one, sum(map(has, one.claims))) for one in published]
    return [f"`{one.exhibit}` ({one.scale}: {n} of {len(one.claims)})" for one, n in found if n]


def _tally(published: list[Published]) -> str:
    """How many claims of the papers have which verdict.

    Questions of our own are not counted, nor verdicts on seeds on which something was chosen.
    """
    theirs = [
        (one, claim.sentence, judged["verdict"])
        for one in published
        for claim, judged in zip(find_exhibit(one.exhibit).claims, one.claims, strict=True)
        if judged["seeds"] >= 3 and judged["verdict"] in WITH_INTERVAL and not judged["own"]
    ]
    every = _counted([verdict for _, _, verdict in theirs])
    trained = [verdict for one, _, verdict in theirs if find_exhibit(one.exhibit).needs_training]
    claims = {(one.exhibit, sentence) for one, sentence, _ in theirs}
    seen = Counter(one.scale for one, _, verdict in theirs if verdict == "seen")
    at = ", ".join(f"{seen[scale]} at {scale} scale" for scale in SCALES)
    sets = Counter(find_exhibit(one.exhibit).owner for one, _, _ in theirs)
    most = max(sets.values(), default=0)
    return (
        f"Verdicts on claims of the papers, on three seeds or more: {every}; of these, on trained networks: "
        f"{_counted(trained)}. They are on {len(claims)} claims, since one that is judged at two scales has "
        f"two. The verdicts that say seen: {at}. The runs come in {len(sets)} sets, some of which share a "
        f"partition, and one of them gives {most} verdicts. Of {len(theirs)} intervals of 95% about "
        f"{len(theirs) / 40:.0f} would lie above zero by chance if no claim were true."
    )


def _counted(words: list[str]) -> str:
    """How many claims have which verdict."""
    return ", ".join(f"{words.count(word)} {word}" for word in WITH_INTERVAL if word in words) or "none"


def with_block(text: str, block: str) -> str:
    """A text with the part between the two marks replaced."""
    before, rest = text.split(BEGIN)
    return f"{before}{BEGIN}\n\n{block}\n\n{END}{rest.split(END)[1]}"


def results_block(out: Path = OUT) -> str:
    """All results, with figures that are linked from docs/."""
    published, notes = read_published(out), read_notes(out)
    lines = [*_judged(published), *_options(), "## The papers' settings"]
    lines += [_settings(paper) for paper in library().papers.values()]
    for scale, title in TITLES.items():
        if mine := [shown for shown in published if shown.scale == scale]:
            lines.append(f"## {title}")
            for shown in mine:
                lines += _section(shown, notes.of(shown.exhibit, scale), (out / shown.figure).exists())
    return "\n\n".join(lines)


def _options() -> list[str]:
    """What options that no table or figure uses do on digits."""
    if not MEASURED.exists():
        return []
    found = json.loads(MEASURED.read_text("utf-8"))
    return [
        "## Options that no table or figure of the papers uses",
        f"Each against its default, by `python -m benchmarks.methods options`. {found['setting']} The "
        "options are not tuned: this shows what they do here, not which is best. With equal clients relative "
        "counts are counts on another scale, and the same to Flashback. SCAFFOLD's option I is unstable at "
        "this learning rate with so few clients a round: accuracy rises and falls again.",
        Table(found["headings"], found["rows"]).markdown(),
    ]


def _settings(paper: Paper) -> str:
    lines = [*paper.settings, *[f"left open, chosen here: {choice}" for choice in paper.chosen]]
    return f"*{paper.title}*\n\n" + "\n".join(f"- {line}" for line in lines)


def _section(shown: Published, note: str, has_figure: bool) -> list[str]:
    exhibit = find_exhibit(shown.exhibit)
    source = exhibit.source
    scale = f" ({shown.scale})" * (shown.scale != "full")
    lines = [
        f"### {shown.exhibit}{scale}",
        f"*{library().papers[source.paper].title}*, {source.where}: {source.measure}. "
        f"Setting: {source.setting}. {source.sentence}.",
    ]
    lines += [f"Here: {exhibit.differs}."] * bool(exhibit.differs)
    if shown.scale != "full":
        lines.append(f"At {shown.scale} scale: {in_words(exhibit.plan(shown.scale, [0]))}.")
    lines += [f"Numbers are: {exhibit.measured}."] * (source.kind == "figure")
    lines += [f"- Claim: {claim['claim']}. **{claim['text']}**" for claim in shown.claims]
    rows = [row for row in shown.rows if not row.stand_in]
    if rows:
        headings = ["run", "paper", f"ours{scale}", "difference", "seeds", "rounds"]
        lines.append(Table(headings, [_cells(row, row.paper) for row in rows]).filled().markdown())
    if stood := [row for row in shown.rows if row.stand_in]:
        headings = ["run", "stand-in data", f"ours{scale}", "difference", "seeds", "rounds"]
        lines += [
            "On other data than the paper's, not comparable with it:",
            Table(headings, [_cells(row, row.stand_in) for row in stood]).filled().markdown(),
        ]
    lines += ["NC: did not converge."] * any("NC" in (row.paper, row.ours) for row in shown.rows)
    lines.append(f"Runs: `{shown.scale}` in `results/runs/{exhibit.owner}.parquet`.")
    lines += [f"Only {short}." for short in shown.shortened]
    if has_figure:
        lines.append(f"![Our runs of {shown.exhibit}{scale}](../results/{shown.figure})")
    if note:
        lines.append(note.strip())
    lines += [
        f"- The papers on {entry.about}: {entry.says}. Used here: {entry.resolved}."
        for entry in library().notes(exhibit.source_name or shown.exhibit)
    ]
    return lines


def _cells(row: Row, second: str) -> list[str]:
    return [row.label, second, row.ours, row.difference, row.count, row.length]


def main() -> None:
    if sys.argv[1:2] == ["add"]:
        print(f"stored {add(Path(sys.argv[2]))}")
    refresh()
    readme, page = ROOT / "README.md", ROOT / "docs" / "results.md"
    readme.write_text(with_block(readme.read_text("utf-8"), readme_block()), "utf-8")
    page.write_text(with_block(PAGE, results_block()), "utf-8")


if __name__ == "__main__":
    main()

"""Runs side by side: mean and spread over seeds, as a table."""

import csv
import io
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eunoe.cli.tables import is_number
from eunoe.core.batches import samples_trained
from eunoe.records.reader import group_key, settings
from eunoe.report.rows import deviation
from eunoe.runs.run import Run

# What a table says of a run that diverged.
NOT_CONVERGED = "NC"


@dataclass(frozen=True)
class Column:
    """A number of a run and how it is written; an optional one is left out where no run has it."""

    title: str
    metric: str
    digits: int = 3
    optional: bool = False


COLUMNS = (
    Column("accuracy", "accuracy"),
    Column("forgetting", "forgetting", 4),
    Column("FedNTD score", "fedntd"),
    Column("worst tenth", "worst_tenth"),
    Column("on clients' tests", "client_test", optional=True),
    Column("on own mix", "without_prior", optional=True),
    Column("with prior", "with_prior", optional=True),
    Column("MB up", "up", 2),
    Column("MB down", "down", 2),
    Column("passes", "passes", 2),
    Column("seconds", "seconds", 1),
)


def numbers(run: Run) -> dict[str, float]:
    """The numbers of one run that are compared."""
    # What a federation that was only watched costs is not known.
    records = [record for record in run.records if "sizes" in record]
    training = run.config.training
    plain = sum(
        samples_trained(size, steps, training)
        for r in records
        for size, steps in zip(r["sizes"], r["steps"], strict=True)
    )
    return {
        "accuracy": run.accuracy,
        "forgetting": run.forgetting,
        "fedntd": run.final("forgetting.fedntd"),
        "worst_tenth": run.final("validation.clients.worst_tenth"),
        "client_test": run.final("client_test.accuracy"),
        "without_prior": run.final("personal.without_prior"),
        "with_prior": run.final("personal.with_prior"),
        "up": sum(r["bytes_up"] for r in records) / 1e6 / (len(records) or math.nan),
        "down": sum(r["bytes_down"] for r in records) / 1e6 / (len(records) or math.nan),
        "passes": sum(r["forwards"] + 2 * r["backwards"] for r in records) / (3 * plain)
        if plain
        else float("nan"),
        "seconds": run.status.get("seconds", float("nan")),
    }


def table(runs: Sequence[Run], columns: Sequence[Column] = COLUMNS) -> tuple[list[str], list[list[str]]]:
    """Headings and rows: one row per group of runs that differ in their seed only."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        groups.setdefault(group_key(run.config), []).append(run)
    known = {id(run): numbers(run) for run in runs}
    shown = [c for c in columns if not c.optional or any(np.isfinite(n[c.metric]) for n in known.values())]
    rows = []
    for title, members in zip(_titles(list(groups.values())), groups.values(), strict=True):
        states = {run.status["state"] for run in members}
        ended = NOT_CONVERGED if "diverged" in states else "failed" if "failed" in states else ""
        values = [known[id(run)] for run in members]
        cells = [
            ended
            if ended and column.metric != "seconds"
            else written([value[column.metric] for value in values], column.digits)
            for column in shown
        ]
        rows.append([title, str(len({run.config.seed for run in members})), *cells])
    return ["run", "seeds", *(column.title for column in shown)], rows


def legend(runs: Sequence[Run]) -> str:
    """What the numbers of the table are, in a line."""
    last = {min(max(run.config.evaluation.last, 1), len(run.records)) for run in runs}
    rounds = f"last {last.pop()}" if len(last) == 1 else "last"
    lengths = sorted({len(run.records) for run in runs})
    apart = f"the runs are of different length: {', '.join(map(str, lengths))} rounds; " * (len(lengths) > 1)
    return apart + (
        f"accuracy on the test set, FedNTD score and worst tenth (of clients): means of the {rounds} rounds; "
        "forgetting: of all rounds; MB: a round; passes: work against plain training"
    )


def _titles(groups: Sequence[Sequence[Run]]) -> list[str]:
    """A title for each group; those of one title are told apart by the settings in which they differ."""
    titles = []
    for group in groups:
        mine, title = settings(group[0].config), group[0].config.title
        alike = [settings(other[0].config) for other in groups if other[0].config.title == title]
        keys = sorted(
            {key for other in alike for key in {**mine, **other} if mine.get(key) != other.get(key)}
        )
        titles.append(", ".join([title, *(f"{key}={mine.get(key, 'none')}" for key in keys)]))
    return titles


def written(values: Sequence[float], digits: int) -> str:
    """Mean ± standard deviation over seeds (n - 1), or the one number there is."""
    known = [value for value in values if np.isfinite(value)]
    if not known:
        return "–"
    if len(known) == 1:
        return f"{known[0]:.{digits}f}"
    return f"{np.mean(known):.{digits}f} ± {deviation(known):.{digits}f}"


def as_markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def as_csv(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Comma-separated values, one number in a cell: deviations over seeds have columns of their own."""
    columns = []
    for heading, *cells in zip(headings, *rows, strict=True):
        # Names may have any sign in them, so what is taken apart is a number and its deviation.
        halves = [cell.partition(" ± ") if is_number(cell) else (cell, "", "") for cell in cells]
        columns.append([heading, *("" if mean == "–" else mean for mean, _, _ in halves)])
        if any(sign for _, sign, _ in halves):
            columns.append([f"{heading} ±", *(spread for _, _, spread in halves)])
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(zip(*columns, strict=True))
    return text.getvalue().rstrip("\n")


def as_latex(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A LaTeX tabular."""
    special = {c: f"\\{c}" for c in "&%$#_{}"} | {
        "±": "$\\pm$",
        "–": "--",
        "·": "$\\cdot$",
        "\\": "\\textbackslash{}",
        "~": "\\textasciitilde{}",
        "^": "\\textasciicircum{}",
    }

    def line(cells: Sequence[str]) -> str:
        return " & ".join("".join(special.get(c, c) for c in cell) for cell in cells) + r" \\"

    body = "\n".join(line(row) for row in rows)
    spec = "l" + "r" * (len(headings) - 1)
    return (
        f"\\begin{{tabular}}{{{spec}}}\n\\hline\n{line(headings)}\n\\hline\n{body}\n\\hline\n\\end{{tabular}}"
    )

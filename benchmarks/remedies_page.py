"""docs/remedies.md and its figure, from the table of benchmarks/remedies.py.

python benchmarks/remedies_page.py [--table results/remedies.jsonl]
"""

import argparse
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
from remedies import REMEDIES, SEEDS, SETTINGS, TABLE, best, key

from eunoe.report.export import as_svg
from eunoe.report.theme import config, table
from eunoe.system.files import read_lines

DOCS = Path(__file__).parents[1] / "docs"
ROOT = DOCS.parent
KINDS: dict[str, Callable[[str], bool]] = {
    "labels differ, 2 to 10% take part": lambda name: "alpha" in name and "of 10," not in name,
    "labels differ, 20% and more take part": lambda name: "shards" in name or "of 10," in name,
    "labels alike or by person": lambda name: True,
}
FORMS = {"newest": "accuracy", "mean": "averaged"}
Row = Mapping[str, Any]

TOP = """
Remedies against forgetting in twelve settings, by `python benchmarks/remedies.py`, from which `eunoe
cure` and `eunoe diagnose` have their order. No setting on which the [cure](cure.md) is judged is among
them. Accuracy is the mean of the last ten rounds on the clients' pooled validation parts; the test set
was never read. "Newest" is the model that clients receive, "mean" the [average of the global
models](averaging.md) (decay 0.9) in the same run. Models are MLPs with 64 hidden units unless the
setting says LeNet; runs have 40 to 80 rounds on the serial engine, which is faster than the vectorized
one where few clients with small models take part.
"""
GAINS = """
Mean gain over plain FedAvg in points, and the least of any setting; each remedy at its best learning
rate so far:
"""
POINTS = """
*A point is a remedy in a setting; what loses more than ten points is at -10.
The round forgetting of a mean of models is small by construction.*
"""
ALL = """
Gain in points over plain FedAvg at the setting's learning rate, by the number of the setting; the best
of a column is bold:
"""
ORDER = """
What a search should try first: beginning with averaging alone, each time the remedy that adds most to the
best of those before it, in points over plain FedAvg (validation, means of the seeds that there are), until
the next adds less than a twentieth of a point. `eunoe cure` has them in this order.
"""
# The least that a remedy must add on average, in accuracy.
LEAST_ADDED = 0.0005
REACHING = """
The first evaluated round (every fifth, the one before it, and the last ten) with what FedAvg's newest
model has in the mean of its last ten rounds; the setting's learning rate, one seed:
"""


class Grid:
    """The best learning rate of each remedy in each setting, as means over its seeds."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = {key(row): row for row in rows if "error" not in row}
        self.settings = [name for name in SETTINGS if (name, "ce", 1.0, SEEDS[0]) in self.rows]

    def runs(self, setting: str, remedy: str) -> list[Row]:
        """The runs of the seeds at the rate that was best on the first seed."""
        first = [
            row
            for (name, one, _, seed), row in self.rows.items()
            if (name, one, seed) == (setting, remedy, 0)
        ]
        if not first:
            return []
        rate = max(first, key=best)["rate"]
        return [self.rows[k] for seed in SEEDS if (k := (setting, remedy, rate, seed)) in self.rows]

    def mean(self, setting: str, remedy: str, field: str) -> float:
        found = self.runs(setting, remedy)
        return float(np.mean([row[field] for row in found])) if found else math.nan

    def baseline(self, setting: str, field: str = "accuracy") -> float:
        """FedAvg with cross-entropy at the learning rate of the setting, as a user would have run it."""
        seeds = [self.rows[k] for seed in SEEDS if (k := (setting, "ce", 1.0, seed)) in self.rows]
        return float(np.mean([row[field] for row in seeds]))

    def gain(self, setting: str, remedy: str, field: str) -> float:
        """What a remedy has above the baseline, on the seeds that both have."""
        pairs = [
            row[field] - self.rows[k]["accuracy"]
            for row in self.runs(setting, remedy)
            if (k := (setting, "ce", 1.0, row["seed"])) in self.rows
        ]
        return float(np.mean(pairs)) if pairs else math.nan


def kind_of(setting: str) -> str:
    return next(kind for kind, fits in KINDS.items() if fits(setting))


def points(grid: Grid) -> list[dict[str, Any]]:
    """Gain in accuracy and fall in the clients' model's forgetting of each remedy in both forms."""
    found = []
    for setting in grid.settings:
        before = grid.baseline(setting, "forgetting")
        for remedy in REMEDIES:
            for form, field, forgets in (
                ("newest", "accuracy", "forgetting"),
                ("mean", "averaged", "averaged_forgetting"),
            ):
                gain = grid.gain(setting, remedy, field)
                if (remedy, form) != ("ce", "newest") and not math.isnan(gain):
                    fall = 100 * (before - grid.mean(setting, remedy, forgets))
                    found.append(
                        {
                            "kind": kind_of(setting),
                            "remedy": remedy,
                            "model": form,
                            "gain": round(100 * gain, 2),
                            "fall": round(fall, 2),
                        }
                    )
    return found


def figure(rows: Sequence[dict[str, Any]]) -> str:
    """Gain against fall, a panel for each kind of setting."""
    panels = []
    for kind in KINDS:
        shown = [row for row in rows if row["kind"] == kind]
        if shown:
            panels.append(
                alt.Chart(table(shown), title=kind)
                .mark_point(filled=True, size=35)
                .encode(
                    alt.X("fall:Q", title="fall in round forgetting (points)"),
                    alt.Y(
                        "gain:Q",
                        title="gain in accuracy (points)",
                        scale=alt.Scale(domain=[-10, 16], clamp=True),
                    ),
                    alt.Color("remedy:N", sort=list(REMEDIES), scale=alt.Scale(scheme="tableau20")),
                    alt.Shape("model:N"),
                )
                .properties(width=250, height=260)
            )
    chart = alt.concat(*panels, columns=3)
    return as_svg(chart.to_dict(validate=False), {**config("#111111", font_size=10), "background": "#ffffff"})


def signed(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:+.1f}"


def main_tables(grid: Grid) -> list[str]:
    """The settings by number, and a row for each remedy and form."""
    lines = ["| | setting | FedAvg | forgets |", "|---|---|---|---|"]
    for number, setting in enumerate(grid.settings, start=1):
        forgets = 100 * grid.baseline(setting, "forgetting")
        lines.append(f"| {number} | {setting} | {grid.baseline(setting):.3f} | {forgets:.1f} |")
    gains = {
        (remedy, form): [grid.gain(setting, remedy, FORMS[form]) for setting in grid.settings]
        for remedy in REMEDIES
        for form in FORMS
        if (remedy, form) != ("ce", "newest")
    }
    known = {pair: row for pair, row in gains.items() if not all(map(math.isnan, row))}
    tops = [np.nanmax(column) for column in zip(*known.values(), strict=True)]
    numbers = " | ".join(str(number) for number in range(1, 1 + len(tops)))
    lines += ["", filled(ALL), "", f"| remedy | {numbers} |", "|---" * (1 + len(tops)) + "|"]
    for (remedy, form), row in known.items():
        cells = [
            f"**{signed(value)}**" if value == top else signed(value)
            for value, top in zip(row, tops, strict=True)
        ]
        lines.append(f"| {remedy}, {form} | {' | '.join(cells)} |")
    return lines


def reaching(grid: Grid) -> list[str]:
    """Rounds to what FedAvg has at the end, on the first seed."""
    shown = [("ce", "curve"), ("ce", "averaged_curve"), ("wsm", "curve"), ("wsm", "averaged_curve")]
    shown += [("ce, scaffold with momentum", "averaged_curve"), ("ce, fedntd", "averaged_curve")]
    heads = [f"{name}, {'mean' if curve.startswith('averaged') else 'newest'}" for name, curve in shown]
    lines = [f"| setting | accuracy | {' | '.join(heads)} |", "|---" * (2 + len(heads)) + "|"]
    for setting in grid.settings:
        target = grid.rows[setting, "ce", 1.0, SEEDS[0]]["accuracy"]
        rows = [(grid.rows.get((setting, remedy, 1.0, SEEDS[0])), curve) for remedy, curve in shown]
        cells = ["" if row is None else first_round(row, curve, target) for row, curve in rows]
        lines.append(f"| {setting} | {target:.3f} | {' | '.join(cells)} |")
    return lines


def first_round(row: Row, curve: str, target: float) -> str:
    known = zip(row["rounds"], row[curve], strict=True)
    return next((str(at) for at, value in known if value >= target), "–")


def by_kind(grid: Grid) -> list[str]:
    """Mean gain of each remedy over the settings of a kind, in its better form, best first."""
    lines = []
    for kind in KINDS:
        inside = [setting for setting in grid.settings if kind_of(setting) == kind]
        found = []
        for remedy in REMEDIES:
            for form, field in FORMS.items():
                gains = [grid.gain(setting, remedy, field) for setting in inside]
                if (remedy, form) != ("ce", "newest") and not any(map(math.isnan, gains)):
                    found.append((float(np.mean(gains)), min(gains), f"{remedy}, {form}"))
        found.sort(reverse=True)
        told = "; ".join(f"{name} {signed(mean)} (least {signed(least)})" for mean, least, name in found[:6])
        lines.append(f"- **{kind}** ({len(inside)} settings): {told}.")
    return lines


def order(grid: Grid) -> list[str]:
    """The remedies, at one learning rate each, in the order in which each adds most to those before it."""
    gains: dict[tuple[str, float], dict[str, list[float]]] = {}
    for (setting, remedy, rate, seed), row in grid.rows.items():
        if (before := grid.rows.get((setting, "ce", 1.0, seed))) is not None:
            found = gains.setdefault((remedy, rate), {}).setdefault(setting, [])
            found.append(best(row) - before["accuracy"])
    means = {
        pair: np.array([np.mean(by_setting[setting]) for setting in grid.settings])
        for pair, by_setting in gains.items()
        if len(by_setting) == len(grid.settings)
    }
    reached = np.zeros(len(grid.settings))
    lines = [
        "| remedy, with averaging or without | learning rate | best so far, mean over settings |",
        "|---|---|---|",
    ]
    while means:
        first = ("ce", 1.0)
        pair = first if first in means else max(means, key=lambda it: np.maximum(reached, means[it]).mean())
        added = np.maximum(reached, means.pop(pair))
        if (added - reached).mean() < LEAST_ADDED:
            break
        reached = added
        lines.append(f"| {pair[0]} | {pair[1]:.2g} times | {signed(float(reached.mean()))} |")
    return lines


def filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), 128)


def page(grid: Grid, rows: Sequence[Row]) -> str:
    parts = [
        ["# What helps when", "", filled(TOP), "", "## By kind of setting", "", filled(GAINS), ""],
        by_kind(grid),
        ["", "![Gain in accuracy against fall in round forgetting](images/remedies.svg)", "", filled(POINTS)],
        ["", "## In which order", "", filled(ORDER), "", *order(grid)],
        ["", "## All settings", "", *main_tables(grid), "", "## Rounds to FedAvg's final accuracy", ""],
        [filled(REACHING), "", *reaching(grid), "", "## What was cut", "", filled(cut(grid, rows)), ""],
    ]
    return "\n".join(line for part in parts for line in part)


def cut(grid: Grid, rows: Sequence[Row]) -> str:
    """How much of the grid was run."""
    rates, seeds = {}, {}
    for setting, remedy, rate, seed in grid.rows:
        rates.setdefault((setting, remedy), set()).add(rate)
        seeds.setdefault((setting, remedy), set()).add(seed)
    whole = len(SETTINGS) * len(REMEDIES)
    minutes = sum(row.get("seconds", 0.0) for row in rows) / 60
    return (
        f"{len(rows)} runs were made, {minutes:.0f} core-minutes. Of {whole} pairs of a setting and a remedy "
        f"{len(rates)} have a run, {sum(len(it) > 1 for it in rates.values())} more than one learning rate, "
        f"{sum(len(it) > 2 for it in seeds.values())} three seeds; of the others a point or two means "
        "nothing. The command goes on where the table ends. Not in it: FEMNIST, heart disease and text, "
        "networks larger than LeNet, more than 80 rounds, decays other than 0.9."
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", type=Path, default=TABLE)
    rows = list(read_lines(parser.parse_args().table))
    grid = Grid(rows)
    (DOCS / "images" / "remedies.svg").write_text(figure(points(grid)))
    (DOCS / "remedies.md").write_text(page(grid, rows))


if __name__ == "__main__":
    main()

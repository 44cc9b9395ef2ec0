"""Do stale updates forget, whose knowledge, and which remedies still help? The tables of docs/staleness.md.

    python -m benchmarks.staleness [tune] [train] [tables] [--seeds 0 1 ... 9]

tune: the learning rate of every remedy and delay, by validation accuracy on seeds 100 to 102. train: all
runs at these rates. Both write docs/measured/staleness.json. tables: the tables and the figure of the page.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
from benchmarks.harness import DOCS, run_sections, write_measured

import eunoe
from eunoe.analysis.statistics import mean_std, student_interval
from eunoe.analysis.tables import Table
from eunoe.report.export import as_svg
from eunoe.report.figures.charts import table as chart_data
from eunoe.report.theme import config as theme

NAME = "staleness"
SETTING: dict[str, Any] = {
    "data": "digits",
    "partition": {"name": "dirichlet", "clients": 20, "alpha": 0.1},
    "participation": 5,
    "rounds": 80,
    "model": {"name": "mlp", "hidden": [64]},
    "training": {"epochs": 2, "batch_size": 16},
    # Pairs of rounds, so that the change of a round is known.
    "evaluation": {"every": 4, "last": 5},
    "probes": [],
}
TUNING: dict[str, Any] = {"evaluation": {"every": 0, "last": 5, "test": False}}
TUNING_SEEDS = (100, 101, 102)
RATES = (0.05, 0.15, 0.45)
DELAYS = (0, 2, 4, 8)
REMEDIES: dict[str, dict[str, Any]] = {
    "none": {},
    "weighting": {"staleness": {"weighting": "polynomial"}},
    "averaging": {"averaging": {"last": 10}},
    "wsm": {"loss": "wsm"},
    "scaffold": {"method": "scaffold"},
}
PARTS = ("fresh", "stale", "absent")


def arms() -> list[tuple[str, int]]:
    """Return the remedies and delays; without a delay, weights of delays change nothing."""
    return [(remedy, most) for remedy in REMEDIES for most in DELAYS if most or remedy != "weighting"]


def config(remedy: str, most: int, rate: float) -> dict[str, Any]:
    """Return the config of an arm."""
    values = {**SETTING, **REMEDIES[remedy], "training": {**SETTING["training"], "lr": rate}}
    return {**values, "staleness": {"max": most, **REMEDIES[remedy].get("staleness", {})}}


def measure_changes(runs: Iterable[Any]) -> dict[str, float]:
    """Return the mean change of accuracy on clients' data in a round, by how they take part."""
    changes: dict[str, list[float]] = {}
    for run in runs:
        before: Mapping[int, float] = {}
        evaluated = 0
        for record in run.records:
            if "validation" not in record:
                continue
            by_client = record["validation"]["by_client"]
            now = dict(zip(by_client["clients"], by_client["accuracy"], strict=True))
            if record["round"] == evaluated + 1:
                clients = record["clients"]
                delays = dict(zip(clients, record.get("delays") or [0] * len(clients), strict=True))
                for client in now.keys() & before.keys():
                    part = "absent" if client not in delays else "stale" if delays[client] else "fresh"
                    changes.setdefault(part, []).append(now[client] - before[client])
            before, evaluated = now, record["round"]
    return {part: round(float(np.mean(changes[part])), 5) for part in PARTS if part in changes}


def tune() -> None:
    """Choose the learning rate of every arm on another seed."""
    rates = {}
    for remedy, most in arms():
        found = {}
        for rate in RATES:
            runs = eunoe.run({**config(remedy, most, rate), **TUNING}, seeds=TUNING_SEEDS)
            found[rate] = float(np.mean([run.final("validation.accuracy") for run in runs]))
        rates[f"{remedy}, {most}"] = max(found, key=lambda rate: found[rate])
        print(remedy, most, found, flush=True)
    write_measured(NAME, {"rates": rates, "arms": []})


def train(seeds: Sequence[int]) -> None:
    """Train all arms at the chosen rates."""
    rates, rows = read()["rates"], []
    for remedy, most in arms():
        rate = rates[f"{remedy}, {most}"]
        runs = eunoe.run(config(remedy, most, rate), seeds=seeds)
        rows.append(
            {
                "remedy": remedy,
                "max": most,
                "rate": rate,
                "accuracy": [round(run.accuracy, 4) for run in runs],
                "forgetting": [round(run.forgetting, 5) for run in runs],
                "changes": measure_changes(runs),
            }
        )
        print(rows[-1], flush=True)
    write_measured(NAME, {"rates": rates, "seeds": list(seeds), "arms": rows})


def read() -> dict[str, Any]:
    values: dict[str, Any] = json.loads((DOCS / "measured" / f"{NAME}.json").read_text("utf-8"))
    return values


def tables() -> None:
    """Print the tables and draw the figure."""
    rows = read()["arms"]
    by_arm = {(row["remedy"], row["max"]): row for row in rows}
    heads = [f"max = {most}" for most in DELAYS]
    for title, value in (("accuracy", "accuracy"), ("round forgetting in points", "forgetting")):
        scale = 1 if value == "accuracy" else 100
        body = [
            [
                remedy,
                *(
                    mean_std([scale * each for each in row[value]], 3 if scale == 1 else 1)
                    if (row := by_arm.get((remedy, most)))
                    else ""
                    for most in DELAYS
                ),
            ]
            for remedy in REMEDIES
        ]
        print(f"\n{title}:\n\n{Table(['remedy', *heads], body).markdown()}")
    print("\nGain over no remedy at the same delay, points [95% interval over the seeds]:\n")
    body = []
    for remedy in list(REMEDIES)[1:]:
        cells = []
        for most in DELAYS:
            row, plain = by_arm.get((remedy, most)), by_arm["none", most]
            if row is None:
                cells.append("")
                continue
            pairs = zip(row["accuracy"], plain["accuracy"], strict=True)
            cells.append(student_interval([100 * (one - other) for one, other in pairs]).cell(1))
        body.append([remedy, *cells])
    print(Table(["remedy", *heads], body).markdown())
    print("\nChange of a client's accuracy in a round, points, by how it takes part:\n")
    body = [
        [
            row["remedy"],
            str(row["max"]),
            *(f"{100 * row['changes'][p]:+.2f}" if p in row["changes"] else "" for p in PARTS),
        ]
        for row in rows
    ]
    print(Table(["remedy", "max", *PARTS], body).markdown())
    draw(rows)


def draw(rows: Sequence[Mapping[str, Any]]) -> None:
    """Draw accuracy and round forgetting over the largest delay."""
    points = [
        {
            "max": row["max"],
            "remedy": row["remedy"],
            "accuracy": float(np.mean(row["accuracy"])),
            "forgetting": 100 * float(np.mean(row["forgetting"])),
        }
        for row in rows
    ]
    base = alt.Chart(chart_data(points)).mark_line(point=True)
    x = alt.X("max:Q", title="largest delay in rounds", axis=alt.Axis(values=list(DELAYS)))
    color = alt.Color("remedy:N", title=None, sort=list(REMEDIES))
    panels = [
        base.encode(x, alt.Y(f"{value}:Q", title=title, scale=alt.Scale(zero=False)), color).properties(
            width=270, height=200
        )
        for value, title in (("accuracy", "test accuracy"), ("forgetting", "round forgetting, points"))
    ]
    look = {**theme("#111111", font_size=10), "background": "#ffffff"}
    spec = alt.hconcat(*panels).to_dict(validate=False)
    (DOCS / "images" / f"{NAME}.svg").write_text(as_svg(spec, look))


if __name__ == "__main__":
    run_sections(__doc__, [tune, train, tables], seeds=tuple(range(10)))

"""Do stale updates forget, whose knowledge, and which remedies still help? The tables of docs/staleness.md.

    python -m benchmarks.staleness [tune] [train] [tables] [--seeds 0 1 ... 9]

tune: the learning rate of every remedy and delay, by validation accuracy on seeds 100 to 102. train: all
runs at these rates. Both write docs/measured/staleness.json. tables: the tables and the figure of the page.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import altair as alt
import numpy as np
from benchmarks.harness import DOCS, replace_in_page, run_sections, write_measured

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
    # Every round, so that the change of each round is known.
    "evaluation": {"every": 1, "last": 5},
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


def measure_changes(run: Any) -> dict[str, float]:
    """Return the mean change of accuracy on a client's data in a round, by how the client takes part."""
    changes: dict[str, list[float]] = {}
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
    return {part: float(np.mean(values)) for part, values in changes.items()}


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
        changes = [measure_changes(run) for run in runs]
        rows.append(
            {
                "remedy": remedy,
                "max": most,
                "rate": rate,
                "accuracy": [round(run.accuracy, 4) for run in runs],
                "forgetting": [round(run.forgetting, 5) for run in runs],
                "changes": {p: [round(each[p], 5) for each in changes] for p in PARTS if p in changes[0]},
            }
        )
        print(rows[-1], flush=True)
    write_measured(NAME, {"rates": rates, "seeds": list(seeds), "arms": rows})


def read() -> dict[str, Any]:
    values: dict[str, Any] = json.loads((DOCS / "measured" / f"{NAME}.json").read_text("utf-8"))
    return values


def tables() -> None:
    """Write the tables into the page and draw the figure."""
    found = read()
    rows = {(row["remedy"], row["max"]): row for row in found["arms"]}
    draw(found["arms"])

    def by_delay(cell: Callable[[str, int], str], delays: Sequence[int] = DELAYS) -> str:
        body = [
            [f"`{r}`", *(cell(r, most) if (r, most) in rows else "" for most in delays)] for r in REMEDIES
        ]
        filled = [row for row in body if any(row[1:])]
        return Table(["remedy", *(f"max = {most}" for most in delays)], filled).markdown()

    def apart(remedy: str, most: int, other: tuple[str, int]) -> str:
        if (remedy, most) == other or other not in rows:
            return ""
        pairs = zip(rows[remedy, most]["accuracy"], rows[other]["accuracy"], strict=True)
        return student_interval([100 * (one - another) for one, another in pairs]).cell(1)

    def change(remedy: str, most: int, part: str) -> str:
        values = rows.get((remedy, most), {}).get("changes", {}).get(part)
        return mean_std([100 * value for value in values], 1) if values else ""

    shown = [(0, "fresh"), (0, "absent"), *((DELAYS[-1], part) for part in PARTS)]
    changes = [[f"`{r}`", *(change(r, most, part) for most, part in shown)] for r in REMEDIES]
    parts = {
        "Test accuracy": by_delay(lambda r, most: mean_std(rows[r, most]["accuracy"], 3)),
        "What delays cost: accuracy minus that of the same remedy without delays, points": by_delay(
            lambda r, most: apart(r, most, (r, 0)), DELAYS[1:]
        ),
        "What a remedy adds: accuracy minus that of `none` with the same delays, points": by_delay(
            lambda r, most: apart(r, most, ("none", most))
        ),
        "Round forgetting, points": by_delay(
            lambda r, most: mean_std([100 * value for value in rows[r, most]["forgetting"]], 1)
        ),
        "How a round changes the accuracy on a client's validation data, points": Table(
            ["remedy", *(f"{part}, max = {most}" for most, part in shown)], changes
        ).markdown(),
    }
    text = "\n\n".join(f"{title}:\n\n{table}" for title, table in parts.items())
    replace_in_page(f"{NAME}.md", "measured", text)


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
    look = {**theme("#111111", font_size=10), "background": "#ffffff", "padding": 10}
    spec = alt.hconcat(*panels).to_dict(validate=False)
    (DOCS / "images" / f"{NAME}.svg").write_text(as_svg(spec, look))


if __name__ == "__main__":
    run_sections(__doc__, [tune, train, tables], seeds=tuple(range(10)))

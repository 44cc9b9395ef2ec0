"""Which clients gain from parameters of their own? The tables of docs/personalization.md.

    python -m benchmarks.personalization [tune] [train] [prior] [tables] [--seeds 0 1 2]

tune: the learning rate of every arm by clients' validation accuracy on seed 100. train: all arms at these
rates; fine-tuning starts from the model of fedavg. prior: WSM with each client's class shares at prediction
(appendix A.4 of the WSM paper), as training goes on. All write docs/measured/personalization.json. tables:
the tables and the figure of the page.
"""

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import torch
from benchmarks.harness import DOCS, replace_in_page, run_sections, write_measured
from torch import Tensor, nn

import eunoe
from eunoe.analysis.statistics import mean_std, student_interval
from eunoe.analysis.tables import Table
from eunoe.data.federation import Federation
from eunoe.metrics.forgetting import mean_at_end, spread
from eunoe.models.base import Classifier
from eunoe.report.export import as_svg
from eunoe.report.figures.charts import table as chart_data
from eunoe.report.theme import config as theme
from eunoe.simulation.run import Run

NAME = "personalization"
FILE = DOCS / "measured" / f"{NAME}.json"
BASE: dict[str, Any] = {
    "data": {"name": "benchmarks.harness:few_images", "images": 6_000},
    "split": {"validation": 0.2, "test": 0.3},
    "participation": 6,
    "rounds": 60,
    "model": "benchmarks.personalization:NormedMLP",
    "training": {"epochs": 2, "batch_size": 20},
    "evaluation": {"every": 10, "last": 5},
    "probes": [],
    "engine": "serial",
}
SETTINGS: dict[str, dict[str, Any]] = {
    "labels": {"partition": {"name": "dirichlet", "clients": 30, "alpha": 0.1}},
    "features": {
        "partition": {"name": "iid", "clients": 30},
        "shift": {"kind": "noise", "strength": 2.0},
    },
}
TITLES = {"labels": "Label skew", "features": "Feature shift"}
ARMS: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "private classifier": {"private": "classifier"},
    "private norm": {"private": "norm"},
    "wsm": {"loss": "wsm"},
    "wsm, private classifier": {"loss": "wsm", "private": "classifier"},
    "local": {"method": "local"},
    "fine-tuning": {"method": "local", "rounds": 5, "participation": 1.0},
}
REFERENCES = ("fedavg", "local", "fine-tuning")
RATES = (0.3, 1.0, 3.0)
TUNING: dict[str, Any] = {"seed": 100, "evaluation": {"every": 0, "last": 5, "test": False}}
# WSM with the clients' class shares, on data that leave room for a gain.
PRIOR: dict[str, Any] = {
    "data": {"name": "benchmarks.harness:few_images", "images": 6_000, "data_set": "fashion_mnist"},
    "loss": "wsm",
    "evaluation": {"every": 0, "last": 1, "personal": 200},
}
PRIOR_ROUNDS = (10, 30, 100, 300)


class NormedMLP(Classifier):
    """64 hidden units with batch normalization."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        self.body, self.norm = nn.Linear(int(np.prod(shape)), 64), nn.BatchNorm1d(64)
        self.classifier = nn.Linear(64, classes)

    def features(self, x: Tensor) -> Tensor:
        return torch.relu(self.norm(self.body(x.flatten(1))))


def train_arm(setting: str, arm: str, rate: float, start: Run | None = None, **values: Any) -> Run:
    """Train an arm; `start` is the run from whose model fine-tuning starts."""
    config = {**BASE, **SETTINGS[setting], **ARMS[arm], **values}
    config["training"] = {**BASE["training"], "lr": rate}
    with tempfile.TemporaryDirectory() as folder:
        if start is not None:
            torch.save(start.model().state_dict(), path := Path(folder) / "start.pt")
            config["model"] = {"name": config["model"], "start_from": str(path)}
        return eunoe.run(config, progress=False)


def tune() -> None:
    """Choose the learning rate of every arm on another seed."""
    rates: dict[str, dict[str, float]] = {}
    for setting in SETTINGS:
        rates[setting] = {}
        best: dict[str, Run] = {}
        for arm in ARMS:
            start = best["fedavg"] if arm == "fine-tuning" else None
            runs = {rate: train_arm(setting, arm, rate, start, **TUNING) for rate in RATES}
            found = {rate: run.final("validation.clients.mean") for rate, run in runs.items()}
            rate = rates[setting][arm] = max(found, key=lambda each: found[each])
            best[arm] = runs[rate]
            print(setting, arm, found, flush=True)
    store(rates=rates)


def train(seeds: Sequence[int]) -> None:
    """Train all arms at the chosen rates."""
    rates, arms, classes = read()["rates"], [], {}
    for setting in SETTINGS:
        runs: dict[str, list[Run]] = {}
        for arm in ARMS:
            # Fine-tuning is the last arm.
            starts = runs["fedavg"] if arm == "fine-tuning" else [None] * len(seeds)
            rate = rates[setting][arm]
            runs[arm] = [
                train_arm(setting, arm, rate, start, seed=seed)
                for seed, start in zip(seeds, starts, strict=True)
            ]
            arms.append({"setting": setting, "arm": arm, **measure(runs[arm])})
            print({key: value for key, value in arms[-1].items() if key != "clients"}, flush=True)
        classes[setting] = [effective_classes(run.simulation.federation) for run in runs["fedavg"]]
    store(arms=arms, classes=classes, seeds=list(seeds))


def measure(runs: Sequence[Run]) -> dict[str, Any]:
    """Return what a table shows of an arm, by seed."""
    clients = [client_accuracies(run) for run in runs]
    found: dict[str, Any] = {
        "clients": [[round(value, 4) for value in each] for each in clients],
        "lost": [round(lost_by_clients(run), 5) for run in runs],
        "bytes_up": runs[0].records[-1].get("bytes_up", 0),
    }
    if "test" in runs[0].records[-1]:
        found |= {"global": [run.accuracy for run in runs], "forgetting": [run.forgetting for run in runs]}
    return found


def client_accuracies(run: Run) -> list[float]:
    """Return the mean accuracy of the last rounds of each client on its own test part."""
    rounds, values = run.series("client_test.by_client.accuracy")
    columns = values.reshape(len(rounds), -1).T
    return [float(mean_at_end(column, rounds, run.config.evaluation.last)) for column in columns]


def effective_classes(federation: Federation) -> list[float]:
    """Return the exponential of the entropy of each client's training labels."""
    counts = federation.all_counts().astype(float)
    shares = counts / counts.sum(1, keepdims=True)
    logs = np.log(shares, where=shares > 0, out=np.zeros_like(shares))
    return [round(float(value), 2) for value in np.exp(-(shares * logs).sum(1))]


def lost_by_clients(run: Run) -> float:
    """Return the mean accuracy that a round takes from a client on its own test part, gains not counted."""
    rounds, values = run.series("client_test.by_client.accuracy")
    rows = values.reshape(len(rounds), -1)
    pairs = np.flatnonzero(np.diff(rounds) == 1)
    return float(np.maximum(rows[pairs] - rows[pairs + 1], 0).mean())


def prior(seeds: Sequence[int]) -> None:
    """Measure what the clients' class shares add to WSM's predictions, early and late in training."""
    rate, points = read()["rates"]["labels"]["wsm"], []
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            config = {**BASE, **SETTINGS["labels"], **PRIOR, "seed": seed}
            config["training"] = {**BASE["training"], "lr": rate}
            for rounds in PRIOR_ROUNDS:
                begun = rounds > PRIOR_ROUNDS[0]
                more: dict[str, Any] = {"rounds": rounds, "progress": False}
                run = eunoe.resume(folder, **more) if begun else eunoe.run(config, out=folder, **more)
                personal = run.records[-1]["personal"]
                shares = {key: round(float(personal[key]), 4) for key in ("without_prior", "with_prior")}
                points.append({"seed": seed, "rounds": rounds, **shares, "test": round(run.accuracy, 4)})
                print(points[-1], flush=True)
    store(prior=points)


def read() -> dict[str, Any]:
    values: dict[str, Any] = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    return values


def store(**values: Any) -> None:
    write_measured(NAME, {**read(), **values})


def tables() -> None:
    """Write the tables into the page and draw the figure."""
    found, parts = read(), []
    draw(found["arms"])
    for setting in SETTINGS:
        rows = {row["arm"]: row for row in found["arms"] if row["setting"] == setting}
        parts += [f"### {TITLES[setting]}", accuracy_table(rows).markdown(), gain_table(rows).markdown()]
        if setting == "labels":
            parts.append(thirds_table(rows, np.concatenate(found["classes"][setting])).markdown())
    parts += ["### WSM with the client's own class shares", prior_table(found["prior"]).markdown()]
    replace_in_page(f"{NAME}.md", "measured", "\n\n".join(parts))


def prior_table(points: Sequence[Mapping[str, Any]]) -> Table:
    """Return what clients' class shares add, by the rounds of training."""
    body = []
    for rounds in PRIOR_ROUNDS:
        found = [point for point in points if point["rounds"] == rounds]
        columns = [[point[key] for point in found] for key in ("test", "without_prior", "with_prior")]
        gains = [100 * (point["with_prior"] - point["without_prior"]) for point in found]
        body.append([str(rounds), *(mean_std(each, 3) for each in columns), student_interval(gains).cell(1)])
    return Table(["rounds", "test set", "clients' mix", "with class shares", "gain in points"], body)


def accuracy_table(rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return means over clients and seeds of every arm."""
    body = []
    for arm, row in rows.items():
        over = [spread(each) for each in row["clients"]]
        plain = [np.mean(each) for each in rows["fedavg"]["clients"]]
        gains = [100 * (each.mean - base) for each, base in zip(over, plain, strict=True)]
        body.append(
            [
                arm,
                mean_std([each.mean for each in over], 3),
                "" if arm == "fedavg" else student_interval(gains).cell(1),
                mean_std([each.worst_tenth for each in over], 3),
                mean_std([100 * value for value in row["lost"]], 1),
                mean_std(row["global"], 3) if "global" in row else "",
                mean_std([100 * value for value in row["forgetting"]], 1) if "global" in row else "",
            ]
        )
    heads = ["", "own test", "against fedavg, points", "worst tenth", "lost in a round", "global test"]
    return Table([*heads, "forgotten in a round"], body)


def gain_table(rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """Return how many clients gain and lose against the global model, local training and fine-tuning."""
    body = []
    for arm, row in rows.items():
        if arm in REFERENCES:
            continue
        cells = []
        for reference in REFERENCES:
            apart = np.subtract(np.concatenate(row["clients"]), np.concatenate(rows[reference]["clients"]))
            cells.append(f"{(apart > 0).sum()} gain, {(apart < 0).sum()} lose")
        body.append([arm, *cells])
    return Table(["", *(f"against {reference}" for reference in REFERENCES)], body)


def thirds_table(rows: Mapping[str, Mapping[str, Any]], classes: np.ndarray) -> Table:
    """Return the mean gain over fedavg of thirds of the clients, by the number of their classes."""
    thirds = np.array_split(np.argsort(classes), 3)
    heads = [f"{classes[third].min():.1f} to {classes[third].max():.1f} classes" for third in thirds]
    body = []
    for arm, row in rows.items():
        if arm != "fedavg":
            gains = 100 * np.subtract(
                np.concatenate(row["clients"]), np.concatenate(rows["fedavg"]["clients"])
            )
            body.append([arm, *(f"{gains[third].mean():+.1f}" for third in thirds)])
    return Table(["gain over fedavg, points", *heads], body)


def draw(arms: Sequence[Mapping[str, Any]]) -> None:
    """Draw the accuracies of all clients as a dot each, with their mean."""
    points = [
        {"setting": TITLES[row["setting"]], "arm": row["arm"], "accuracy": value}
        for row in arms
        for each in row["clients"]
        for value in each
    ]
    base = alt.Chart(chart_data(points))
    x = alt.X("accuracy:Q", title="accuracy on the client's own test part", axis=alt.Axis(format="%"))
    x = x.scale(zero=False)
    y = alt.Y("arm:N", sort=list(ARMS), title=None)
    dots = base.mark_tick(opacity=0.25, thickness=1.5).encode(x, y)
    mean = base.mark_point(filled=True, size=60, color="#d62728").encode(x.aggregate("mean"), y)
    chart = alt.layer(dots, mean).properties(width=280, height=190)
    facets = chart.facet(alt.Column("setting:N", title=None, sort=list(TITLES.values())))
    look = {**theme("#111111", font_size=10), "background": "#ffffff", "padding": 20}
    svg = as_svg(facets.to_dict(validate=False), look)
    (DOCS / "images" / f"{NAME}.svg").write_text(svg)


if __name__ == "__main__":
    run_sections(__doc__, [tune, train, prior, tables], seeds=(0, 1, 2))

"""Remedies against forgetting in twelve settings, from which `eunoe cure` has the order of its search.

    python -m benchmarks.remedies [train] [tables] [--table FILE] [--minutes 60] [--only digits]

train: train the grid of settings, remedies, learning rates and seeds; a run in the table is not repeated.
tables: print the tables of docs/remedies.md. The settings on which the cure is judged are not among them.

Each run averages its global models, and the newest model is measured beside the mean, so that one training
gives the result with averaging and without. Accuracy is that of the clients' pooled validation parts, the
mean of the last ten rounds; the test set is never read.
"""

import json
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from benchmarks.harness import ROOT, run_sections

from eunoe.analysis.tables import Table
from eunoe.config.schema import make_config
from eunoe.config.settings import merge
from eunoe.data.federation import Federation
from eunoe.errors import EunoeError
from eunoe.metrics.forgetting import mean_at_end, mean_over_rounds
from eunoe.simulation.build import build_federation
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from eunoe.system.files import read_lines

LAST = 10


def _setting(data: str, partition: Mapping[str, Any], rounds: int, **more: Any) -> dict[str, Any]:
    base = {
        "data": data,
        "partition": partition,
        "rounds": rounds,
        "model": {"name": "mlp", "hidden": [64]},
        "averaging": {"decay": 0.9},
        "evaluation": {"every": 5, "last": LAST, "test": False},
        "probes": [],
        "engine": {"name": "serial"},
        "checkpoint_seconds": 3600,
    }
    return merge(base, more)


def _dirichlet(clients: int, alpha: float) -> dict[str, Any]:
    return {"name": "dirichlet", "clients": clients, "alpha": alpha}


def _training(epochs: int, lr: float, batch_size: int = 32) -> dict[str, Any]:
    return {"epochs": epochs, "lr": lr, "batch_size": batch_size}


SETTINGS: dict[str, dict[str, Any]] = {
    "digits, alpha 0.1, 1 of 20, 5 epochs": _setting(
        "digits", _dirichlet(20, 0.1), 60, participation=1, training=_training(5, 0.1, 16)
    ),
    "Fashion-MNIST, alpha 0.1, 5 of 100, 2 epochs": _setting(
        "fashion_mnist", _dirichlet(100, 0.1), 60, participation=5, training=_training(2, 0.05)
    ),
    "MNIST, alpha 0.05, 2 of 100, 2 epochs": _setting(
        "mnist", _dirichlet(100, 0.05), 80, participation=2, training=_training(2, 0.05)
    ),
    "LeNet, Fashion-MNIST, alpha 0.1, 2 of 40, 1 epoch": _setting(
        "fashion_mnist", _dirichlet(40, 0.1), 40, participation=2, training=_training(1, 0.05), model="lenet"
    ),
    "digits, alpha 0.05, 2 of 20, 20 epochs": _setting(
        "digits", _dirichlet(20, 0.05), 50, participation=2, training=_training(20, 0.1, 16)
    ),
    "digits, alpha 1, 5 of 10, 5 epochs": _setting(
        "digits", _dirichlet(10, 1.0), 40, participation=5, training=_training(5, 0.1, 16)
    ),
    "LeNet, CIFAR-10, alpha 0.1, 2 of 40, 1 epoch": _setting(
        "cifar10", _dirichlet(40, 0.1), 40, participation=2, training=_training(1, 0.05), model="lenet"
    ),
    "Fashion-MNIST, alpha 0.3, 5 of 50, 1 epoch": _setting(
        "fashion_mnist", _dirichlet(50, 0.3), 40, participation=5, training=_training(1, 0.05)
    ),
    "MNIST, two shards, 20 of 100, 1 epoch": _setting(
        "mnist",
        {"name": "shards", "clients": 100, "shards": 2},
        40,
        participation=20,
        training=_training(1, 0.05),
    ),
    "Fashion-MNIST, sizes differ, 5 of 50, 1 epoch": _setting(
        "fashion_mnist",
        {"name": "quantity", "clients": 50, "alpha": 0.3, "min_size": 20},
        40,
        participation=5,
        training=_training(1, 0.05),
    ),
    "MNIST, features shift, 2 of 50, 2 epochs": _setting(
        "mnist",
        {"name": "iid", "clients": 50},
        40,
        participation=2,
        training=_training(2, 0.05),
        shift={"kind": "rotation", "strength": 45.0},
    ),
    "HAR, by person, 3 of 30, 3 epochs": _setting(
        "har", {"name": "natural"}, 60, participation=3, training=_training(3, 0.05)
    ),
}

MOMENTUM = {"server_optimizer": {"name": "momentum", "beta": 0.8, "lr": 0.2}}
WSM = {"loss": {"name": "wsm"}}


def _method(name: str, **options: Any) -> dict[str, Any]:
    return {"method": {"name": name, **options}}


COMMON: dict[str, dict[str, Any]] = {
    "ce": {},
    "wsm": WSM,
    "ce, momentum": MOMENTUM,
    "wsm, momentum": {**WSM, **MOMENTUM},
    "ce, scaffold with momentum": {**_method("scaffold"), **MOMENTUM},
    "logit adjustment": {"loss": {"name": "logit_adjusted", "tau": 0.5}},
    "ce, fedntd": _method("fedntd"),
    "ce, fedsam": _method("fedsam"),
    "ce, fedacg": _method("fedacg"),
    "ce, fedprox": _method("fedprox", mu=0.1),
    "wsm, scaffold with momentum": {**WSM, **_method("scaffold"), **MOMENTUM},
    "wsm, fedacg": {**WSM, **_method("fedacg")},
}
OTHERS: dict[str, dict[str, Any]] = {
    "ce, fedexp": {"server_optimizer": {"name": "fedexp"}},
    "ce, scaffold": _method("scaffold"),
    "ce, fedcm": _method("fedcm"),
    "ce, fedvls": _method("fedvls"),
    "ce, falling rate": {"training": {"lr_decay": 0.97}},
    "fedlc": {"loss": {"name": "fedlc"}},
    "fedrs": {"loss": {"name": "fedrs"}},
    "tce": {"loss": {"name": "tce"}},
    "balanced": {"loss": {"name": "balanced"}},
    "wsm, fedsam": {**WSM, **_method("fedsam")},
    "wsm, fedprox": {**WSM, **_method("fedprox", mu=0.1)},
    "wsm, fedexp": {**WSM, "server_optimizer": {"name": "fedexp"}},
    "wsm, falling rate": {**WSM, "training": {"lr_decay": 0.97}},
}
REMEDIES = {**COMMON, **OTHERS}
# How many of the common remedies are trained before other learning rates.
FIRST = 7
# The remedies that are trained on more seeds first.
MAIN = (
    "ce",
    "wsm",
    "ce, scaffold with momentum",
    "logit adjustment",
    "ce, fedntd",
    "ce, fedacg",
    "wsm, fedacg",
)
RATES = (1.0, 1 / 3, 3.0)
SEEDS = (0, 1, 2)


class Job(NamedTuple):
    """One run of the grid: the learning rate is a factor on the setting's."""

    setting: str
    remedy: str
    rate: float
    seed: int

    @property
    def values(self) -> dict[str, Any]:
        base = SETTINGS[self.setting]
        lr = float(f"{base['training']['lr'] * self.rate:.4g}")
        return merge(base, REMEDIES[self.remedy], {"training": {"lr": lr}, "seed": self.seed})


Row = Mapping[str, Any]
Key = tuple[str, str, float, int]


def key(row: Row) -> Key:
    """Return what identifies a run in the table."""
    return row["setting"], row["remedy"], row["rate"], row["seed"]


def best(row: Row) -> float:
    """Return the better accuracy of the mean and the newest model; 0 for a run that failed."""
    return max(row.get("accuracy") or 0.0, row.get("averaged") or 0.0)


def train(table: Path, minutes: float, only: str) -> None:
    """Train what is not in the table yet, the most informative runs first."""
    rows, start = {key(row): row for row in read_lines(table)}, time.monotonic()
    for job in plan(rows, only):
        if (job.setting, job.remedy, round(job.rate, 4), job.seed) in rows:
            continue
        if time.monotonic() - start > 60 * minutes:
            print("the time is over; run the same command again to continue")
            return
        row = {**job._asdict(), "rate": round(job.rate, 4), **measure(job)}
        with open(table, "a", encoding="utf-8") as file:
            file.write(f"{json.dumps(row)}\n")
        rows[key(row)] = row
        shown = ("accuracy", "averaged", "forgetting", "seconds", "error")
        print(*job, {name: row[name] for name in shown if row.get(name) is not None}, flush=True)


def plan(rows: Mapping[Key, Row], only: str) -> Iterator[Job]:
    """Yield all runs in order.

    First the common remedies at the setting's learning rate on one seed, then a third and three times of it
    for ce and wsm, then two more seeds of the main remedies at their best rates, then the rest.
    """
    settings, common = [name for name in SETTINGS if only.lower() in name.lower()], list(COMMON)

    def one_seed(remedies: Sequence[str], rates: Sequence[float]) -> Iterator[Job]:
        for name in settings:
            for rate in rates:
                for remedy in remedies:
                    yield Job(name, remedy, rate, SEEDS[0])

    def more_seeds(remedies: Sequence[str]) -> Iterator[Job]:
        for seed in SEEDS[1:]:
            for name in settings:
                # The baseline, whichever rate is best for it.
                yield Job(name, "ce", RATES[0], seed)
                for remedy in remedies:
                    known = [
                        (best(row), rate)
                        for rate in RATES
                        if (row := rows.get((name, remedy, round(rate, 4), SEEDS[0])))
                    ]
                    yield Job(name, remedy, max(known)[1] if known else 1.0, seed)

    yield from one_seed(common[:FIRST], RATES[:1])
    yield from one_seed(common[:2], RATES[1:])
    yield from one_seed(["ce, fedacg", "wsm, fedacg"], RATES[1:2])
    yield from more_seeds(MAIN)
    yield from one_seed(common[FIRST:], RATES[:1])
    yield from one_seed(common[2:], RATES[1:])
    yield from one_seed(list(OTHERS), RATES)
    yield from more_seeds([*common, *OTHERS])


@lru_cache(maxsize=2)
def federation_of(setting: str, seed: int) -> Federation:
    """Build the clients of a setting, which its remedies share."""
    return build_federation(make_config({**SETTINGS[setting], "seed": seed}))


def measure(job: Job) -> dict[str, Any]:
    """Train, and return accuracy and forgetting of the newest model and of the mean."""
    values = {name: value for name, value in job.values.items() if name != "partition"}
    federation, start = federation_of(job.setting, job.seed), time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = run(values, federation=federation, out=Path(folder) / "run", progress=False)
        except EunoeError as error:
            return {"error": str(error)}
        return {**read_curves(done), "seconds": round(time.process_time() - start, 1)}


def read_curves(done: Run) -> dict[str, Any]:
    """Return curves and their ends, of the newest model and of the mean of models."""
    values: dict[str, Any] = {}
    for prefix, name in (("sent.", ""), ("", "averaged")):
        rounds, accuracy = done.series(f"{prefix}validation.accuracy")
        at, forgetting = done.series(f"{prefix}forgetting.round")
        values |= {
            name or "accuracy": round(mean_at_end(accuracy, rounds, LAST), 4),
            f"{name}_forgetting" if name else "forgetting": round(mean_over_rounds(forgetting, at), 4),
            f"{name}_curve" if name else "curve": [round(float(value), 3) for value in accuracy],
            "rounds": [int(round) for round in rounds],
        }
    return values


KINDS: dict[str, Callable[[str], bool]] = {
    "labels differ, 2 to 10% take part": lambda name: "alpha" in name and "of 10," not in name,
    "labels differ, 20% and more take part": lambda name: "shards" in name or "of 10," in name,
    "labels alike or by person": lambda name: "alpha" not in name and "shards" not in name,
}
FORMS = {"newest": "accuracy", "mean": "averaged"}
# The least that a remedy must add on average to have a place in the order, in accuracy.
LEAST_ADDED = 0.0005


def tables(table: Path) -> None:
    """Print the tables of docs/remedies.md."""
    rows = {key(row): row for row in read_lines(table) if "error" not in row}
    settings = [name for name in SETTINGS if (name, "ce", 1.0, SEEDS[0]) in rows]
    gains = {
        (remedy, form): [mean_gain(rows, setting, remedy, field) for setting in settings]
        for remedy in REMEDIES
        for form, field in FORMS.items()
        if (remedy, form) != ("ce", "newest")
    }
    gains = {pair: values for pair, values in gains.items() if not np.isnan(values).all()}
    print("Mean gain over plain FedAvg, best first, and the smallest in any setting:\n")
    for kind, fits in KINDS.items():
        inside = [number for number, setting in enumerate(settings) if fits(setting)]
        known = {pair: np.array(values)[inside] for pair, values in gains.items()}
        ranked = sorted(
            (
                (values.mean(), values.min(), pair)
                for pair, values in known.items()
                if not np.isnan(values).any()
            ),
            reverse=True,
        )
        best_six = [
            f"{', '.join(pair)} {points(mean)} (least {points(least)})" for mean, least, pair in ranked[:6]
        ]
        print(f"- **{kind}** ({len(inside)} settings): {'; '.join(best_six)}.")
    print("\nOrder of the search:\n")
    heads = ["remedy, with averaging or without", "learning rate", "best so far, mean over settings"]
    print(Table(heads, search_order(rows, settings)).markdown())
    print("\nSettings:\n")
    baselines = []
    for number, setting in enumerate(settings, start=1):
        runs = [rows[k] for seed in SEEDS if (k := (setting, "ce", 1.0, seed)) in rows]
        accuracy, forgetting = (np.mean([row[name] for row in runs]) for name in ("accuracy", "forgetting"))
        baselines.append([str(number), setting, f"{accuracy:.3f}", f"{100 * forgetting:.1f}"])
    print(Table(["", "setting", "FedAvg", "forgets"], baselines).markdown())
    print("\nGain by the number of the setting; the best of a column is bold:\n")
    tops = np.nanmax(list(gains.values()), axis=0)
    body = [
        [
            ", ".join(pair),
            *(f"**{points(v)}**" if v == top else points(v) for v, top in zip(values, tops, strict=True)),
        ]
        for pair, values in gains.items()
    ]
    print(Table(["remedy", *(str(number) for number in range(1, 1 + len(settings)))], body).markdown())


def points(value: float) -> str:
    return "" if math.isnan(value) else f"{100 * value:+.1f}"


def mean_gain(rows: Mapping[Key, Row], setting: str, remedy: str, field: str) -> float:
    """Return a remedy's gain over FedAvg at the setting's rate, on the seeds that both have.

    The remedy has the learning rate that was best on the first seed.
    """
    first = [
        row for row in rows.values() if (row["setting"], row["remedy"], row["seed"]) == (setting, remedy, 0)
    ]
    if not first:
        return math.nan
    rate = max(first, key=best)["rate"]
    gains = [
        rows[setting, remedy, rate, seed][field] - rows[setting, "ce", 1.0, seed]["accuracy"]
        for seed in SEEDS
        if (setting, remedy, rate, seed) in rows and (setting, "ce", 1.0, seed) in rows
    ]
    return float(np.mean(gains)) if gains else math.nan


def search_order(rows: Mapping[Key, Row], settings: Sequence[str]) -> list[list[str]]:
    """Order the remedies, at one learning rate each, by what each adds to the best of those before it."""
    gains: dict[tuple[str, float], dict[str, list[float]]] = {}
    for (setting, remedy, rate, seed), row in rows.items():
        if (baseline := rows.get((setting, "ce", 1.0, seed))) is not None:
            by_setting = gains.setdefault((remedy, rate), {})
            by_setting.setdefault(setting, []).append(best(row) - baseline["accuracy"])
    means = {
        pair: np.array([np.mean(by_setting[setting]) for setting in settings])
        for pair, by_setting in gains.items()
        if len(by_setting) == len(settings)
    }
    reached, order = np.zeros(len(settings)), []
    pair = ("ce", 1.0)
    while means:
        added = np.maximum(reached, means.pop(pair))
        if (added - reached).mean() < LEAST_ADDED:
            break
        reached = added
        order.append([pair[0], f"{pair[1]:.2g} times", points(float(reached.mean()))])
        if means:
            pair = max(means, key=lambda candidate: np.maximum(reached, means[candidate]).mean())
    return order


if __name__ == "__main__":
    run_sections(
        __doc__, [train, tables], table=ROOT / "results" / "remedies.jsonl", minutes=math.inf, only=""
    )

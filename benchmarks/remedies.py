"""What helps when: remedies against forgetting on design settings, in one table that grows.

    python benchmarks/remedies.py [--minutes 60] [--only digits] [--table results/remedies.jsonl]

Each run averages its global models, and the newest model is measured beside the mean, so that one training
gives the result with averaging and without. Accuracy is that of the clients' pooled validation
parts, the mean of the last ten rounds; the test set is never read. Runs are in order of what they tell: first
all common remedies at the setting's learning rate on one seed, then a third and three times of it for ce and
wsm, then two more seeds of the main remedies at their best rates, then the rest. A line of the table is a
run, and what is in it is not run again. `python -m benchmarks.remedies_page` makes docs/remedies.md of it.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch

from eunoe.config.schema import make_config
from eunoe.config.settings import merge
from eunoe.data.federation import Federation
from eunoe.errors import EunoeError
from eunoe.metrics.forgetting import mean_at_end, mean_over_rounds
from eunoe.simulation.build import build_federation
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from eunoe.system.files import read_lines

TABLE = Path(__file__).parents[1] / "results" / "remedies.jsonl"
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


def _skewed(clients: int, alpha: float) -> dict[str, Any]:
    return {"name": "dirichlet", "clients": clients, "alpha": alpha}


def _trained(epochs: int, lr: float, batch_size: int = 32) -> dict[str, Any]:
    return {"epochs": epochs, "lr": lr, "batch_size": batch_size}


SETTINGS: dict[str, dict[str, Any]] = {
    "digits, alpha 0.1, 1 of 20, 5 epochs": _setting(
        "digits", _skewed(20, 0.1), 60, participation=1, training=_trained(5, 0.1, 16)
    ),
    "Fashion-MNIST, alpha 0.1, 5 of 100, 2 epochs": _setting(
        "fashion_mnist", _skewed(100, 0.1), 60, participation=5, training=_trained(2, 0.05)
    ),
    "MNIST, alpha 0.05, 2 of 100, 2 epochs": _setting(
        "mnist", _skewed(100, 0.05), 80, participation=2, training=_trained(2, 0.05)
    ),
    "LeNet, Fashion-MNIST, alpha 0.1, 2 of 40, 1 epoch": _setting(
        "fashion_mnist", _skewed(40, 0.1), 40, participation=2, training=_trained(1, 0.05), model="lenet"
    ),
    "digits, alpha 0.05, 2 of 20, 20 epochs": _setting(
        "digits", _skewed(20, 0.05), 50, participation=2, training=_trained(20, 0.1, 16)
    ),
    "digits, alpha 1, 5 of 10, 5 epochs": _setting(
        "digits", _skewed(10, 1.0), 40, participation=5, training=_trained(5, 0.1, 16)
    ),
    "LeNet, CIFAR-10, alpha 0.1, 2 of 40, 1 epoch": _setting(
        "cifar10", _skewed(40, 0.1), 40, participation=2, training=_trained(1, 0.05), model="lenet"
    ),
    "Fashion-MNIST, alpha 0.3, 5 of 50, 1 epoch": _setting(
        "fashion_mnist", _skewed(50, 0.3), 40, participation=5, training=_trained(1, 0.05)
    ),
    "MNIST, two shards, 20 of 100, 1 epoch": _setting(
        "mnist",
        {"name": "shards", "clients": 100, "shards": 2},
        40,
        participation=20,
        training=_trained(1, 0.05),
    ),
    "Fashion-MNIST, sizes differ, 5 of 50, 1 epoch": _setting(
        "fashion_mnist",
        {"name": "quantity", "clients": 50, "alpha": 0.3, "min_size": 20},
        40,
        participation=5,
        training=_trained(1, 0.05),
    ),
    "MNIST, features shift, 2 of 50, 2 epochs": _setting(
        "mnist",
        {"name": "iid", "clients": 50},
        40,
        participation=2,
        training=_trained(2, 0.05),
        shift={"kind": "rotation", "strength": 45.0},
    ),
    "HAR, by person, 3 of 30, 3 epochs": _setting(
        "har", {"name": "natural"}, 60, participation=3, training=_trained(3, 0.05)
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
# The common remedies that come before other learning rates.
FIRST = 7
# The remedies that more seeds come first for.
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


class Table:
    """The runs so far, by job."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows = {key(line): line for line in read_lines(path)}

    def add(self, job: Job, found: Mapping[str, Any]) -> None:
        line = {**job._asdict(), "rate": round(job.rate, 4), **found}
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(f"{json.dumps(line)}\n")
        self.rows[key(line)] = line

    def best_rate(self, setting: str, remedy: str) -> float:
        """The factor with the best accuracy on the first seed, averaged or not."""
        known = [
            (best(line), rate)
            for rate in RATES
            if (line := self.rows.get((setting, remedy, round(rate, 4), SEEDS[0])))
        ]
        return max(known)[1] if known else 1.0


def key(line: Mapping[str, Any]) -> tuple[str, str, float, int]:
    """What a line is the run of."""
    return line["setting"], line["remedy"], line["rate"], line["seed"]


def best(line: Mapping[str, Any]) -> float:
    """The better one of the accuracies with averaging and without; 0 for a run that failed."""
    return max(line.get("accuracy") or 0.0, line.get("averaged") or 0.0)


def jobs(table: Table, only: str) -> Iterator[Job]:
    """All runs, in the order of what they tell."""
    names, common = [name for name in SETTINGS if only.lower() in name.lower()], list(COMMON)

    def rated(remedies: Sequence[str], rates: Sequence[float]) -> Iterator[Job]:
        for name in names:
            for rate in rates:
                for remedy in remedies:
                    yield Job(name, remedy, rate, SEEDS[0])

    def repeated(remedies: Sequence[str]) -> Iterator[Job]:
        for seed in SEEDS[1:]:
            for name in names:
                # What all others are compared with, whichever rate is best for it.
                yield Job(name, "ce", RATES[0], seed)
                for remedy in remedies:
                    yield Job(name, remedy, table.best_rate(name, remedy), seed)

    yield from rated(common[:FIRST], RATES[:1])
    yield from rated(common[:2], RATES[1:])
    yield from rated(["ce, fedacg", "wsm, fedacg"], RATES[1:2])
    yield from repeated(MAIN)
    yield from rated(common[FIRST:], RATES[:1])
    yield from rated(common[2:], RATES[1:])
    yield from rated(list(OTHERS), RATES)
    yield from repeated([*common, *OTHERS])


@lru_cache(maxsize=2)
def federation_of(setting: str, seed: int) -> Federation:
    """The clients of a setting, which its remedies share."""
    return build_federation(make_config({**SETTINGS[setting], "seed": seed}))


def measure(job: Job) -> dict[str, Any]:
    """Train, and read what the mean and the newest model reached."""
    values = {name: value for name, value in job.values.items() if name != "partition"}
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        try:
            done = run(
                values,
                federation=federation_of(job.setting, job.seed),
                out=Path(folder) / "run",
                progress=False,
            )
        except EunoeError as error:
            return {"error": str(error)}
        return {**read(done), "seconds": round(time.process_time() - began, 1)}


def read(done: Run) -> dict[str, Any]:
    """What a line has of a run: curves and their ends, of the newest model and of the mean of models."""
    found: dict[str, Any] = {}
    for prefix, name in (("sent.", ""), ("", "averaged")):
        rounds, accuracy = done.series(f"{prefix}validation.accuracy")
        at, forgetting = done.series(f"{prefix}forgetting.round")
        found |= {
            name or "accuracy": round(mean_at_end(accuracy, rounds, LAST), 4),
            f"{name}_forgetting" if name else "forgetting": round(mean_over_rounds(forgetting, at), 4),
            f"{name}_curve" if name else "curve": [round(float(value), 3) for value in accuracy],
            "rounds": [int(one) for one in rounds],
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", type=Path, default=TABLE)
    parser.add_argument("--minutes", type=float, default=float("inf"), help="End after so much time.")
    parser.add_argument("--only", default="", help="Only settings with this in their name.")
    options = parser.parse_args()
    torch.set_num_threads(1)
    table, began = Table(options.table), time.monotonic()
    for job in jobs(table, options.only):
        if (job.setting, job.remedy, round(job.rate, 4), job.seed) in table.rows:
            continue
        if time.monotonic() - began > 60 * options.minutes:
            print("the time is over; the same command goes on")
            return
        found = measure(job)
        table.add(job, found)
        numbers = {
            name: found.get(name) for name in ("accuracy", "averaged", "forgetting", "seconds", "error")
        }
        print(*job, {name: value for name, value in numbers.items() if value is not None}, flush=True)


if __name__ == "__main__":
    main()

"""What differential privacy and smaller updates cost: accuracy, forgetting by class, seconds.

    python benchmarks/privacy_cost.py clients         epsilon 2 to 16 with 10,000 clients, logistic regression
    python benchmarks/privacy_cost.py writers         the 539 writers of MNIST, each a client
    python benchmarks/privacy_cost.py bytes-digits    top-k at 10, 3 and 1% and quantization
    python benchmarks/privacy_cost.py bytes-writers   top-k at 10, 3 and 1% for MNIST's writers
    python benchmarks/privacy_cost.py seconds         seconds of a round, as ratios to a plain one

    [--seeds 0 1 2] [--rounds N]

Each writes docs/measured/NAME.json and prints its table, which docs/privacy.md shows. Accuracy is the mean of
the last 5 rounds; forgetting is FedNTD's score, a class's best earlier accuracy minus its last, here the mean
over classes and the worst class. No option was chosen by the test set.
"""

import argparse
import json
import logging
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from eunoe.analysis.statistics import mean_std
from eunoe.config.options import Privacy
from eunoe.config.schema import make_config
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.server.accounting import Accountant
from eunoe.simulation.build import assemble
from eunoe.simulation.loop import one_round
from eunoe.simulation.run import Run
from eunoe.simulation.running import run
from eunoe.store.state import start_state

MEASURED = Path(__file__).parent.parent / "docs/measured"
HEADINGS = ("accuracy", "worst class", "forgetting", "forgetting, worst class", "lost per round")
QUIET = {
    "probes": [],
    "split": {"validation": 0.0},
    "evaluation": {"every": 1, "last": 5, "validation": False},
    "engine": "vectorized",
    "method": {"name": "fedavg", "weighting": "uniform"},
}
MNIST = {**QUIET, "data": "mnist", "model": "logistic"}
CLIENTS = {
    **MNIST,
    "partition": {"name": "shards", "clients": 10_000, "shards": 2},
    "participation": 500,
    "training": {"epochs": 3, "batch_size": 10, "lr": 0.1},
}
WRITERS = {
    **MNIST,
    "partition": {"name": "natural"},
    "participation": 100,
    "training": {"epochs": 1, "batch_size": 32, "lr": 0.1},
}
CLIP = 0.5


def noise_for(epsilon: float, delta: float, clients: int, participants: int, rounds: int) -> float:
    """The least noise, in steps of a hundredth, with which these rounds spend at most epsilon."""
    low, high = 0, 10_000
    while high - low > 1:
        middle = (low + high) // 2
        privacy = Privacy(clip=1.0, noise=middle / 100, delta=delta)
        enough = Accountant(privacy, clients, participants).epsilon(rounds) <= epsilon
        low, high = (low, middle) if enough else (middle, high)
    return high / 100


def measured(values: Mapping[str, Any]) -> tuple[Run, list[float]]:
    """A run and the numbers of its row."""
    with tempfile.TemporaryDirectory() as folder:
        done = run(values, out=Path(folder) / "run", progress=False)
    history = done.read.per_class
    lost = history[:-1].max(0) - history[-1]
    last = history[-5:].mean(0)
    return done, [last.mean(), last.min(), lost.mean(), lost.max(), done.forgetting]


def table(name: str, about: str, rows: Mapping[str, Mapping[str, Any]], seeds: Sequence[int]) -> None:
    """Run each row over the seeds; write the table after each row and print it."""
    heads = ["setting", *HEADINGS, "epsilon", "kB up a round"]
    setting = f"{about}, mean ± standard deviation over seeds {', '.join(map(str, seeds))}"
    print(f"{setting}\n\n| {' | '.join(heads)} |\n|{'---|' * len(heads)}", flush=True)
    began, lines = time.perf_counter(), list[list[str]]()
    for label, values in rows.items():
        found = [measured({**values, "seed": seed}) for seed in seeds]
        cells = [mean_std([numbers[i] for _, numbers in found], 3) for i in range(len(HEADINGS))]
        last = found[-1][0].records[-1]
        epsilon = (last.get("privacy") or {}).get("epsilon")
        spent = "–" if epsilon is None else f"{epsilon:.1f}"
        lines.append([label, *cells, spent, f"{last['bytes_up'] / 1e3:,.0f}"])
        print(f"| {' | '.join(lines[-1])} |", flush=True)
        values = {"setting": setting, "headings": heads, "rows": lines}
        (MEASURED / f"{name}.json").write_text(json.dumps(values, indent=1, ensure_ascii=False) + "\n")
    print(f"\n{time.perf_counter() - began:.0f} s")


def clients(seeds: Sequence[int], rounds: int) -> None:
    """Epsilon 2 to 16 with 10,000 clients."""
    base, delta = {**CLIENTS, "rounds": rounds}, 1e-5
    rows: dict[str, dict[str, Any]] = {
        "plain": base,
        "clip 0.5": {**base, "privacy": {"clip": CLIP, "noise": 0.0, "delta": delta}},
    }
    for epsilon in (16.0, 8.0, 4.0, 2.0):
        noise = noise_for(epsilon, delta, 10_000, 500, rounds)
        privacy = {"clip": CLIP, "noise": noise, "delta": delta, "epsilon": epsilon}
        rows[f"clip 0.5, noise {noise:g}"] = {**base, "privacy": privacy}
    about = f"10,000 clients of 6 MNIST samples in two classes, 500 a round, {rounds} rounds, logistic "
    table("privacy-clients", f"{about}regression, delta 1e-5", rows, seeds)


def writers(seeds: Sequence[int], rounds: int) -> None:
    """The writers of MNIST."""
    base = {**WRITERS, "rounds": rounds}
    rows: dict[str, dict[str, Any]] = {"plain": base}
    for noise in (0.0, 1.0, 2.0, 4.0):
        label = f"clip 0.5, noise {noise:g}" if noise else "clip 0.5"
        rows[label] = {**base, "privacy": {"clip": CLIP, "noise": noise, "delta": 1e-3}}
    about = f"MNIST's 539 writers, 100 a round, {rounds} rounds, logistic regression, delta 1e-3"
    table("privacy-writers", about, rows, seeds)


def topk(share: float, feedback: bool = True) -> dict[str, Any]:
    return {"compress": {"name": "topk", "share": share, "feedback": feedback}}


TOPK = {"plain": {}, **{f"topk {share:.0%}": topk(share) for share in (0.1, 0.03, 0.01)}}


def digits(seeds: Sequence[int], rounds: int) -> None:
    """Top-k with and without feedback and quantization on digits."""
    further = {f"topk {share:.0%}, no feedback": topk(share, False) for share in (0.1, 0.01)}
    for bits in (8, 2):
        further[f"quantize {bits} bits"] = {"compress": {"name": "quantize", "bits": bits}}
    base = {
        **QUIET,
        "data": "digits",
        "partition": {"name": "dirichlet", "clients": 20, "alpha": 0.3},
        "participation": 10,
        "training": {"epochs": 3, "batch_size": 32, "lr": 0.1},
        "rounds": rounds,
    }
    about = f"digits, 20 clients of few classes (alpha 0.3), 10 a round, the MLP, {rounds} rounds"
    table("bytes-digits", about, {label: base | more for label, more in {**TOPK, **further}.items()}, seeds)


def bytes_of_writers(seeds: Sequence[int], rounds: int) -> None:
    """Top-k with feedback on the writers of MNIST."""
    base = {**WRITERS, "participation": 50, "rounds": rounds}
    about = f"MNIST's 539 writers, 50 a round, logistic regression, {rounds} rounds"
    table("bytes-writers", about, {label: base | more for label, more in TOPK.items()}, seeds)


def seconds(seeds: Sequence[int], rounds: int) -> None:
    """Seconds of a round of each kind, one after the other in every repetition; the median counts."""
    private = {"method": {"name": "fedavg", "weighting": "uniform"}}
    private |= {"privacy": {"clip": 0.5, "noise": 1.0, "delta": 1e-3}}
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "privacy": private,
        "privacy, noise from the system": private,
        "topk 10%": {"compress": {"name": "topk", "share": 0.1}},
        "quantize 8 bits": {"compress": {"name": "quantize", "bits": 8}},
        "secure aggregation, without masks": {"secure_aggregation": {}},
    }
    base = {**MNIST, "model": "lenet", "partition": {"name": "natural"}, "participation": 20}
    base |= {"training": {"epochs": 1, "batch_size": 32}, "engine": "serial", "method": "fedavg"}
    with tempfile.TemporaryDirectory() as folder:
        running = {}
        for number, (label, more) in enumerate(kinds.items()):
            simulation, _ = assemble(make_config({**base, **more}))
            secret = label.endswith("system")
            simulation = replace(simulation, context=replace(simulation.context, secret=secret))
            engine = Serial(simulation, ClientStates(Path(folder) / str(number)))
            running[label] = (simulation, engine, start_state(simulation), list[float]())
        for _ in range(rounds):
            for simulation, engine, state, times in running.values():
                # The same clients for all but those that the system draws, so that work differs by kind.
                state.round = 0
                began = time.process_time()
                one_round(simulation, engine, state)
                times.append(time.process_time() - began)
    plain = float(np.median(running["plain"][3]))
    print("| round | seconds | ratio |\n|---|---|---|")
    for label, (_, _, _, times) in running.items():
        print(f"| {label} | {np.median(times):.2f} | {np.median(times) / plain:.2f} |", flush=True)


PARTS = {
    "clients": clients,
    "writers": writers,
    "bytes-digits": digits,
    "bytes-writers": bytes_of_writers,
    "seconds": seconds,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=list(PARTS))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=40)
    options = parser.parse_args()
    # The warnings are about what the docs say.
    logging.disable(logging.WARNING)
    PARTS[options.what](options.seeds, options.rounds)


if __name__ == "__main__":
    main()

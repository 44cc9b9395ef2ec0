"""What each merge keeps and forgets under bad clients: digits, 10 clients, all of them in every round.

    python benchmarks/robust.py [--seeds 0 1 2] [--partitions iid "alpha 0.1"] [--rounds 10]

Prints the tables of docs/robustness.md. "minority" is the accuracy on the three classes whose samples the
fewest clients hold (by the inverse sum of squared shares); forgetting is FedNTD's score over the rounds: the
mean over classes of the best earlier accuracy minus the last.
"""

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from eunoe.config.schema import make_config
from eunoe.engines.base import evaluate_chunk
from eunoe.engines.client_states import ClientStates
from eunoe.engines.vectorized.engine import Vectorized
from eunoe.errors import RunFailed
from eunoe.metrics.base import Rows
from eunoe.metrics.forgetting import fedntd_score, per_class_accuracy
from eunoe.simulation.build import assemble
from eunoe.simulation.loop import one_round
from eunoe.store.state import start_state

torch.set_num_threads(1)

PARTITIONS: dict[str, dict[str, Any]] = {
    "iid": {"name": "iid", "clients": 10},
    "alpha 0.1": {"name": "dirichlet", "clients": 10, "alpha": 0.1},
}
SHARES = (0.0, 0.1, 0.2, 0.3)


class Outcome(NamedTuple):
    """A run's last accuracy, that on minority classes, its forgetting, and how many updates were dropped."""

    accuracy: float
    minority: float
    forgetting: float
    dropped: int


def merges(bad: int) -> dict[str, dict[str, Any]]:
    """Each merge with the options that so many bad clients call for; at least one is expected."""
    bad = max(bad, 1)
    return {
        "mean": {"name": "mean"},
        "norm_clip": {"name": "norm_clip"},
        "median": {"name": "median"},
        "trimmed_mean": {"name": "trimmed_mean", "share": bad / 10},
        "krum": {"name": "krum", "bad": bad},
        "multi_krum": {"name": "multi_krum", "bad": bad, "keep": 10 - bad - 2},
        "geometric_median": {"name": "geometric_median", "iterations": 20},
    }


def outcome(values: dict[str, Any], rounds: int) -> Outcome:
    """Train and evaluate after every round."""
    base = {"data": "digits", "participation": 1.0, "probes": [], "training": {"lr": 0.2}}
    simulation, _ = assemble(make_config({**base, **values}))
    federation = simulation.federation
    where = Rows("test", np.arange(len(federation.data.test.y)))
    labels, history, dropped = federation.data.test.y.numpy(), [], 0
    with tempfile.TemporaryDirectory() as folder:
        engine = Vectorized(simulation, ClientStates(Path(folder)), cohort=10)
        state = start_state(simulation)
        for _ in range(rounds):
            try:
                dropped += len(one_round(simulation, engine, state).record["dropped"])
            except RunFailed:
                break
            predicted = evaluate_chunk(simulation, state.weights, where).classes
            history.append(per_class_accuracy(predicted, labels, federation.classes))
    counts = federation.all_counts()
    shares = counts / counts.sum(0)
    fewest = np.argsort(1 / (shares**2).sum(0))[:3]
    last = history[-1]
    return Outcome(float(last.mean()), float(last[fewest].mean()), fedntd_score(history), dropped)


def spread(found: list[Outcome], field: str) -> str:
    values = [getattr(one, field) for one in found]
    return f"{np.mean(values):.3f} ± {np.std(values, ddof=1) if len(values) > 1 else 0:.3f}"


def table(partition: str, attack: str, scale: float, names: list[str], rounds: int, seeds: list[int]) -> None:
    """Print the table of an attack on a partition."""
    print(f"\n**{attack}, scale {scale:g}, {partition}**\n")
    heads = [f"{share:.0%} bad" for share in SHARES]
    print("| merge | measure |", " | ".join(heads), "|\n|---|---|" + "---|" * len(heads))
    for name in names:
        columns = []
        for share in SHARES:
            own = {"partition": PARTITIONS[partition], "aggregation": merges(round(10 * share))[name]}
            if share:
                own["attack"] = {"name": attack, "share": share, "scale": scale}
            columns.append([outcome({**own, "seed": seed}, rounds) for seed in seeds])
        for field in ("accuracy", "minority", "forgetting"):
            cells = [spread(found, field) for found in columns]
            print(f"| {name if field == 'accuracy' else ''} | {field} |", " | ".join(cells), "|")
        cells = [str(sum(one.dropped for one in found)) for found in columns]
        print("| | dropped |", " | ".join(cells), "|", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--partitions", nargs="+", default=list(PARTITIONS), choices=PARTITIONS)
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    began = time.perf_counter()
    for partition in options.partitions:
        table(partition, "sign_flip", 10, list(merges(0)), options.rounds, options.seeds)
        table(partition, "size_lie", 1e9, ["mean"], options.rounds, options.seeds)
    print(f"\n{options.rounds} rounds, seeds {options.seeds}, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()

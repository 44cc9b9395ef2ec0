"""What a round costs under each method, as a multiple of FedAvg's, on CIFAR-10 with the McMahan CNN.

    python benchmarks/methods.py [--clients 2] [--samples 500] [--rounds 7] [--methods fedprox moon ...]

Five local epochs, batches of 50, no augmentation, no evaluation, one thread, serial engine. All methods
take a round in turn, so that a machine that grows slower does so for all; each round is divided by
FedAvg's of the same turn. Times are of the processor, not of the clock, and include merging and client
state on disk. The first turn is not counted: from the second on, clients have a state. MOON is compared
with FedAvg that has the same projection head.
"""

import argparse
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from eunoe.config.options import Split
from eunoe.config.schema import make_config
from eunoe.data.federation import Federation
from eunoe.data.loading import load
from eunoe.data.partitions.iid import Iid
from eunoe.data.samples import Samples
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.loop import one_round
from eunoe.store.state import start_state

HEAD = {"name": "cnn", "head": True}
CLIP = {"clip": 10.0}
# What differs from the base, what it is divided by, and the most it may cost.
CASES: dict[str, tuple[dict[str, Any], str, float | None]] = {
    "fedavg": ({"method": "fedavg"}, "fedavg", None),
    "fedavg, clipped": ({"method": "fedavg", "training": CLIP}, "fedavg", None),
    "fedavg, with head": ({"method": "fedavg", "model": HEAD}, "fedavg", None),
    "fedprox": ({"method": "fedprox"}, "fedavg", 1.05),
    "scaffold": ({"method": "scaffold"}, "fedavg", 1.05),
    "scaffold, option I": ({"method": {"name": "scaffold", "option": "I"}}, "fedavg", None),
    "feddyn": ({"method": "feddyn"}, "fedavg", 1.05),
    "fednova": ({"method": "fednova"}, "fedavg", 1.05),
    "fedadam": ({"method": "fedadam"}, "fedavg", None),
    "fedexp": ({"method": "fedexp"}, "fedavg", None),
    "gma": ({"method": "gma"}, "fedavg", None),
    "fedacg": ({"method": "fedacg"}, "fedavg", None),
    "fedcm": ({"method": "fedcm"}, "fedavg", None),
    "fedsam": ({"method": "fedsam"}, "fedavg", None),
    "fedvls": ({"method": "fedvls"}, "fedavg", None),
    "fedntd": ({"method": "fedntd"}, "fedavg", 1.15),
    "flashback's clients": ({"method": {"name": "flashback", "server_epochs": 0}}, "fedavg", 1.15),
    "moon": ({"method": "moon", "model": HEAD}, "fedavg, with head", 1.25),
    "fedcurv": ({"method": {"name": "fedcurv", "weight": 0.001}}, "fedavg", 1.35),
    "fedcurv, 1% kept": ({"method": {"name": "fedcurv", "weight": 0.001, "kept": 0.01}}, "fedavg", None),
    "fedreg": ({"method": "fedreg"}, "fedavg", None),
}


class Turn:
    """One method's run, a round at a time."""

    def __init__(self, federation: Federation, changes: dict[str, Any], folder: Path) -> None:
        base = {"participation": len(federation), "model": "cnn"}
        training = {"epochs": 5, "batch_size": 50, "lr": 0.01, **changes.get("training", {})}
        config = make_config({**base, **changes, "training": training})
        self.simulation, _ = assemble(config, UserObjects(federation=federation))
        self.engine = Serial(self.simulation, ClientStates(folder))
        self.run_state = start_state(self.simulation)

    def seconds(self) -> float:
        start = time.process_time()
        one_round(self.simulation, self.engine, self.run_state)
        taken = time.process_time() - start
        self.engine.states.prune([self.run_state.round])
        return taken


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--samples", type=int, default=500, help="samples of a client")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--methods", nargs="*", choices=list(CASES), metavar="NAME")
    asked = parser.parse_args()
    torch.set_num_threads(1)
    wanted = set(asked.methods or CASES)
    wanted |= {"fedavg", *(CASES[name][1] for name in wanted)}
    data = load("cifar10")
    size = asked.clients * asked.samples
    data = replace(data, train=Samples(data.train.x[:size], data.train.y[:size]))
    federation = Federation.build(data, Iid(clients=asked.clients), split=Split(validation=0.0))
    with tempfile.TemporaryDirectory() as folder:
        turns = {
            name: Turn(federation, changes, Path(folder) / str(number))
            for number, (name, (changes, _, _)) in enumerate(CASES.items())
            if name in wanted
        }
        taken: dict[str, list[float]] = {name: [] for name in turns}
        order = list(turns)
        for _ in range(asked.rounds + 1):
            # Another one begins each time, since what ran before leaves its traces in the caches.
            order = order[1:] + order[:1]
            for name in order:
                taken[name].append(turns[name].seconds())
    print(f"{'method':22} {'seconds':>8} {'ratio':>7} {'least':>7} {'most':>7} {'allowed':>8}")
    for name, times in taken.items():
        _, base, allowed = CASES[name]
        ratios = [mine / theirs for mine, theirs in zip(times[1:], taken[base][1:], strict=True)]
        limit = "" if allowed is None else f"{allowed:.2f}"
        print(
            f"{name:22} {statistics.median(times[1:]):8.2f} {statistics.median(ratios):7.3f} "
            f"{min(ratios):7.3f} {max(ratios):7.3f} {limit:>8}"
        )


if __name__ == "__main__":
    main()

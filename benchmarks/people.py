"""Activities by person (HAR): who of thirty gains by a federation, against training alone and centrally.

    python benchmarks/people.py choose FOLDER
    python benchmarks/people.py test FOLDER

`choose` prints the federation's accuracy on the validation parts for learning rates, on a seed that is not
tested; `test` trains all three with the one of the config on three seeds and prints the table of
`eunoe compare FOLDER/test --by client`. Runs that a folder already has are not repeated.
"""

import sys
from pathlib import Path
from typing import Any

import torch

import eunoe
from eunoe.config.settings import read_config
from eunoe.runs.run import Run, run

CONFIG = Path(__file__).parents[1] / "examples" / "people.toml"
RATES = (0.05, 0.2)
CHOSEN_ON, SEEDS = 100, (0, 1, 2)
METHODS = ("fedavg", "local", "central")


def trained(out: Path, method: str, seed: int, **sections: Any) -> Run:
    """The run of this folder, trained unless it is there."""
    if (out / "status.json").exists() and Run(out).finished:
        return Run(out)
    named = {"name": method, "method": method, "seed": seed, "probes": []}
    return run(read_config(CONFIG), **named, **sections, out=out, progress=False)


def choose(folder: Path) -> None:
    for lr in RATES:
        sections = {"training": {"lr": lr}, "evaluation": {"test": False}}
        done = trained(folder / f"lr-{lr}", "fedavg", CHOSEN_ON, **sections)
        print(f"lr {lr}: validation {done.final('validation.accuracy'):.3f}", flush=True)


def test(folder: Path) -> None:
    for seed in SEEDS:
        for method in METHODS:
            trained(folder / f"{method}-{seed}", method, seed)
    found = eunoe.compare(folder).by_client()
    print(found.table().markdown(), *found.sentences(), sep="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"choose": choose, "test": test}[sys.argv[1]](Path(sys.argv[2]) / sys.argv[1])

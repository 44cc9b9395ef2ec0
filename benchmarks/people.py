"""Activities by person (HAR): who of thirty gains by a federation, against training alone and centrally.

    python benchmarks/people.py FOLDER

Trains the config examples/people.toml with each method on three seeds and prints the table of
`eunoe compare FOLDER --by client`. Runs that the folder already has are not repeated.
"""

import sys
from pathlib import Path

import torch

import eunoe
from eunoe.config.settings import read_config
from eunoe.simulation.run import Run
from eunoe.simulation.running import run

CONFIG = Path(__file__).parents[1] / "examples" / "people.toml"
SEEDS = (0, 1, 2)
METHODS = ("fedavg", "local", "central")


def main(folder: Path) -> None:
    for seed in SEEDS:
        for method in METHODS:
            out = folder / f"{method}-{seed}"
            if not (out / "status.json").exists() or not Run(out).finished:
                changes = {"name": method, "method": method, "seed": seed, "probes": []}
                run(read_config(CONFIG), **changes, out=out, progress=False)
    found = eunoe.compare(folder).by_client()
    print(found.table().markdown(), *found.sentences(), sep="\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main(Path(sys.argv[1]))

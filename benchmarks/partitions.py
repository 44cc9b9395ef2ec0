"""Seconds to divide 50,000 samples over 100 clients, and 1,000,000 over 100,000, with each partition.

Run as `python benchmarks/partitions.py`.
"""

import time
from typing import Any

from eunoe.config import registry
from eunoe.core.rng import generator

SETTINGS = ((50_000, 100), (1_000_000, 100_000))
# A client of ten samples cannot hold min_size = 10 of unequal sizes, so the floor is one sample here.
OPTIONS: dict[str, dict[str, Any]] = {"dirichlet_by_class": {"alpha": 1.0, "min_size": 1}}


def main() -> None:
    print(f"{'partition':20}" + "".join(f"{n:>12,} / {clients:<8,}" for n, clients in SETTINGS))
    for name in registry.names("partition"):
        line = f"{name:20}"
        for samples, clients in SETTINGS:
            draw = generator(0, "benchmark")
            labels, groups = draw.integers(0, 10, samples), draw.integers(0, clients, samples)
            given = {**OPTIONS.get(name, {}), **({} if name == "natural" else {"clients": clients})}
            partition = registry.build("partition", name, given)
            began = time.perf_counter()
            partition(labels, draw, groups)
            line += f"{time.perf_counter() - began:>19.3f} s  "
        print(line)


if __name__ == "__main__":
    main()

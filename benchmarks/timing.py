"""Two programs measured in turn, again and again, and compared.

They are compared by the 20th percentile of their times, since a shared machine is never faster than itself
but often slower.
"""

import time
from collections.abc import Callable

import numpy as np


def interleaved(pair: dict[str, Callable[[], None]], times: int) -> dict[str, list[float]]:
    """Seconds of each of the pair, measured in turn."""
    seconds: dict[str, list[float]] = {name: [] for name in pair}
    for _ in range(times):
        for name, work in pair.items():
            began = time.perf_counter()
            work()
            seconds[name].append(time.perf_counter() - began)
    return seconds


def low(values: list[float]) -> float:
    return float(np.percentile(values, 20))


def report(what: str, seconds: dict[str, list[float]], limit: float) -> None:
    (mine, ours), (other, theirs) = ((name, low(values)) for name, values in seconds.items())
    print(
        f"{what}: {mine} {ours:.4f} s, {other} {theirs:.4f} s, ratio {ours / theirs:.2f} (at most {limit:g})"
    )

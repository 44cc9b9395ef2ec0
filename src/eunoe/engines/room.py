"""Whether this machine's memory holds an engine's workers."""

from eunoe.core.flat_model import Weights
from eunoe.errors import InputError
from eunoe.system.machine import memory

# What a worker holds besides models, at least: a forked process, and one that Ray starts.
FORKED, STARTED = 2**26, 2**28
# The weights that it trains, their gradient, and what it sends.
_MODELS = 3


def check_room(workers: int, weights: Weights, besides: int) -> None:
    """Refuse more workers than the free memory holds; how much it is may be unknown."""
    model = sum(vector.numel() * vector.itemsize for vector in weights.vectors().values())
    each, (_, free) = besides + _MODELS * model, memory()
    if free and workers * each > free:
        raise InputError(
            f"{workers} workers need at least {workers * each / 1e9:.1f} GB of memory, and {free / 1e9:.1f} "
            f"GB are free: set engine.workers to {max(1, free // each)} or less"
        )

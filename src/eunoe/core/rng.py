"""Random number generators, each from a key (seed, purpose, round, client).

Generators of different keys are independent, so adding a probe, an evaluation or another method
changes no other random number, and two methods at one seed see the same clients and batches.
"""

import zlib
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from numpy.typing import NDArray


def _key(seed: int, purpose: str, round: int, client: int) -> np.random.SeedSequence:
    return np.random.SeedSequence((seed, zlib.crc32(purpose.encode()), round, client))


def generator(seed: int, purpose: str, round: int = 0, client: int = 0) -> np.random.Generator:
    """Return the NumPy generator of a key."""
    return np.random.Generator(np.random.PCG64(_key(seed, purpose, round, client)))


def draw_clients(seed: int, round: int, clients: int, participants: int) -> NDArray[np.int64]:
    """Draw the clients of a round, without replacement."""
    return generator(seed, "clients", round).choice(clients, participants, replace=False, shuffle=False)


def torch_seed(seed: int, purpose: str, round: int = 0, client: int = 0) -> int:
    """Return a 63-bit seed for a torch generator."""
    high, low = (int(word) for word in _key(seed, purpose, round, client).generate_state(2))
    return (high & 0x7FFFFFFF) << 32 | low


def torch_generator(seed: int, purpose: str, round: int = 0, client: int = 0) -> torch.Generator:
    """Return the torch generator (CPU) of a key."""
    return torch.Generator().manual_seed(torch_seed(seed, purpose, round, client))


@contextmanager
def global_stream(
    device: torch.device, seed: int, purpose: str, round: int = 0, client: int = 0
) -> Iterator[None]:
    """Seed torch's global generator (initialization, dropout) in a `with` block, and restore the CPU's."""
    before, key = torch.default_generator.get_state(), torch_seed(seed, purpose, round, client)
    if device.type == "cpu":
        # torch.manual_seed seeds every device type, which takes longer than a small step.
        torch.default_generator.manual_seed(key)
    else:
        torch.manual_seed(key)
    try:
        yield
    finally:
        torch.default_generator.set_state(before)

"""Differential privacy: what each client sends is clipped as a whole, and the sums get noise.

With x_k all that client k adds (its contribution to the mean change, and what the method sums besides), C the
clip, z the noise and n the planned number of clients in a round:

    S = sum_k x_k min(1, C / ||x_k||) + z C N(0, I)        mean = S / n

(McMahan et al., 2018, "Learning Differentially Private Recurrent Language Models",
https://arxiv.org/abs/1710.06963). Clients count equally. n does not depend on who answered, so a missing
client is one that sends zeros. The noise is drawn once a round, for all vectors in the order of their
declaration.

In a simulation it comes from the seed, so a round that is repeated has the same noise. A federation's server
draws it from the operating system, and each number is half the sum of four: a single one shows in its last
bits which real numbers it may come from (Holohan and Braghin, 2021, https://arxiv.org/abs/2107.10138).
"""

import math
import os
from collections.abc import Callable, Mapping

import numpy as np
import torch
from scipy.special import ndtri
from torch import Tensor

from eunoe.config.options import Privacy
from eunoe.core.flat_model import Vectors, Weights
from eunoe.core.rng import generator
from eunoe.server.aggregate import Aggregate, Upload

# Gives this many independent standard normal numbers, in float64.
Normal = Callable[[int], Tensor]


class PrivateAggregate(Aggregate):
    """The sums of a round's clipped updates, which are read with noise only."""

    def __init__(
        self,
        start: Weights,
        uploads: Mapping[str, Upload],
        privacy: Privacy,
        participants: int,
        normal: Normal,
    ) -> None:
        super().__init__(start, "uniform", uploads)
        self.privacy, self.participants, self.normal = privacy, participants, normal
        self._released: Vectors = {}

    @property
    def count(self) -> int:
        return self.participants

    @property
    def summed(self) -> None:
        """Each update is clipped as a whole before it is added."""
        return None

    def add(
        self, client: int, size: int, weights: Weights, change: Tensor, uploads: Mapping[str, Tensor]
    ) -> None:
        sent = clipped(
            {"change": change, **{name: uploads[name] for name in self.uploads}}, self.privacy.clip
        )
        super().add(client, size, weights, sent.pop("change"), sent)

    def mean(self, name: str) -> Tensor:
        return self.sum(name) / self.participants

    def sum(self, name: str) -> Tensor:
        if name == "float_buffers":
            return torch.zeros(0, dtype=torch.float64)
        if not self._released:
            self._release()
        return self._released[name]

    def _release(self) -> None:
        """Draw the noise of the round."""
        sizes = {"change": self.start.parameters.numel()}
        sizes |= {name: upload.size for name, upload in self.uploads.items()}
        for name, size in sizes.items():
            # Where every client was dropped nothing but the noise is left.
            total = self._sums.totals.get(name, torch.zeros(size, dtype=torch.float64))
            if self.privacy.noise:
                total = total + self.privacy.noise * self.privacy.clip * self.normal(size)
            self._released[name] = total


def clipped(vectors: Mapping[str, Tensor], clip: float) -> Vectors:
    """The vectors of a client in float64, scaled down together so that their joint norm is at most `clip`."""
    exact = {name: value.double() for name, value in vectors.items()}
    norm = math.hypot(*(float(torch.linalg.vector_norm(value)) for value in exact.values()))
    return exact if norm <= clip else {name: value * (clip / norm) for name, value in exact.items()}


def seeded_normal(seed: int, round: int) -> Normal:
    """The noise of a round of a simulation."""
    rng = generator(seed, "privacy noise", round)
    return lambda size: torch.from_numpy(rng.standard_normal(size))


def system_normal(size: int) -> Tensor:
    """Numbers from the operating system's generator."""
    return sum((_one_normal(size) for _ in range(4)), torch.zeros(size, dtype=torch.float64)) / 2


def _one_normal(size: int) -> Tensor:
    bits = np.frombuffer(os.urandom(8 * size), np.uint64) >> np.uint64(12)
    # The middles of 2^52 intervals: never 0 or 1, where the inverse is infinite.
    return torch.from_numpy(ndtri((bits + 0.5) / 2.0**52))

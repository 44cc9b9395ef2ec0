"""Differential privacy: what each client sends is clipped as a whole, and the sums get noise.

With x_k all that client k adds (its contribution to the mean change, and what the method sums besides), C the
clip, z the noise and n the planned number of clients in a round:

    S = sum_k x_k min(1, C / ||x_k||) + z C N(0, I)        mean = S / n

(McMahan et al., 2018, "Learning Differentially Private Recurrent Language Models",
https://arxiv.org/abs/1710.06963). Clients count equally, and a missing client is one that sends zeros. The
noise is drawn once a round, for all vectors in the order of their declaration.

In a simulation it comes from the seed, so a repeated round has the same noise. A federation's server draws it
from the operating system, and each number is half the sum of four: a single one shows in its last bits which
real numbers it may come from (Holohan and Braghin, 2021, https://arxiv.org/abs/2107.10138).

The accountant gives (epsilon, delta) of a client's whole participation, by the library dp-accounting. A round
is a Gaussian mechanism on a sample of fixed size without replacement, under the relation "replace one client
by another": a sum of vectors clipped to C changes by up to 2 C, so the noise multiplier is half of `noise`,
which counts in multiples of C. Rounds are composed by Rényi divergences.
"""

import math
import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from eunoe.config.options import Participation, Privacy
from eunoe.core.flat_model import Vectors, Weights
from eunoe.core.rng import generator
from eunoe.errors import InputError, install_command
from eunoe.server.aggregate import Aggregate, Upload

# Draws this many independent standard normal numbers, in float64.
Normal = Callable[[int], Tensor]


@dataclass(frozen=True)
class ClientPrivacy:
    """Differential privacy of a run: its options, and where its random numbers come from."""

    options: Privacy
    # Whether clients and noise are drawn from the operating system and not from the seed.
    secret: bool = False

    @property
    def hides_clients(self) -> bool:
        """Whether clients are drawn in secret, for which epsilon is computed."""
        return self.secret and self.options.noise > 0

    def aggregate(
        self, start: Weights, uploads: Mapping[str, Upload], participants: int, seed: int, round: int
    ) -> "PrivateAggregate":
        """Return the empty sums of a round."""
        normal = system_normal if self.secret else seeded_normal(seed, round)
        return PrivateAggregate(start, uploads, self.options, participants, normal)

    def accountant(
        self, clients: int, participants: int, schedule: Participation | None = None
    ) -> "Accountant | None":
        """Return what computes the spent epsilon; None without noise, where it is infinite."""
        return Accountant(self.options, clients, participants, schedule) if self.options.noise else None


class PrivateAggregate(Aggregate):
    """The sums of a round's clipped updates, which are read with noise only."""

    clips = True

    def __init__(
        self, start: Weights, uploads: Mapping[str, Upload], privacy: Privacy, participants: int, draw: Normal
    ) -> None:
        super().__init__(start, "uniform", uploads)
        self.privacy, self.participants, self.normal = privacy, participants, draw

    @property
    def count(self) -> int:
        return self.participants

    def add(
        self, client: int, size: int, weights: Weights, change: Tensor, uploads: Mapping[str, Tensor]
    ) -> None:
        sent = self.clip({"change": change, **{name: uploads[name] for name in self.uploads}})
        super().add(client, size, weights, sent.pop("change"), sent)

    def clip(self, vectors: Vectors) -> Vectors:
        return clip(vectors, self.privacy.clip)

    def mean(self, name: str) -> Tensor:
        return self.sum(name) / self.participants

    def sum(self, name: str) -> Tensor:
        return torch.zeros(0, dtype=torch.float64) if name == "float_buffers" else self._noisy_sums[name]

    @cached_property
    def _noisy_sums(self) -> Vectors:
        """The sums with the noise of the round."""
        noisy = {}
        sizes = {"change": self.start.parameters.numel()}
        sizes |= {name: upload.size for name, upload in self.uploads.items()}
        for name, size in sizes.items():
            # If every client was dropped, only the noise is left.
            total = self._totals.get(name, torch.zeros(size, dtype=torch.float64))
            if self.privacy.noise:
                total = total + self.privacy.noise * self.privacy.clip * self.normal(size)
            noisy[name] = total
        return noisy


def clip(vectors: Mapping[str, Tensor], bound: float) -> Vectors:
    """Return a client's vectors in float64, scaled down together to a joint norm of at most `bound`."""
    exact = {name: value.double() for name, value in vectors.items()}
    norm = math.hypot(*(float(torch.linalg.vector_norm(value)) for value in exact.values()))
    return exact if norm <= bound else {name: value * (bound / norm) for name, value in exact.items()}


def seeded_normal(seed: int, round: int) -> Normal:
    """Return the noise of a round of a simulation."""
    rng = generator(seed, "privacy noise", round)
    return lambda size: torch.from_numpy(rng.standard_normal(size))


def system_normal(size: int) -> Tensor:
    """Draw numbers from the operating system's generator."""
    return sum((_one_normal(size) for _ in range(4)), torch.zeros(size, dtype=torch.float64)) / 2


def _one_normal(size: int) -> Tensor:
    # Slow to import, and so imported only where used.
    from scipy.special import ndtri

    bits = np.frombuffer(os.urandom(8 * size), np.uint64) >> np.uint64(12)
    # The middles of 2^52 intervals: never 0 or 1, where the inverse is infinite.
    return torch.from_numpy(ndtri((bits + 0.5) / 2.0**52))


class Accountant:
    """The epsilon of a number of noisy aggregations."""

    def __init__(
        self, privacy: Privacy, clients: int, participants: int, schedule: Participation | None = None
    ) -> None:
        """With a schedule, `participants` are the most of any round."""
        self.privacy, self.clients = privacy, clients
        self.participants, self.schedule = participants, schedule
        try:
            self._one(participants)
        except ImportError:
            raise InputError(f"privacy needs dp-accounting: run {install_command('privacy')}") from None

    def _one(self, participants: int) -> tuple[Any, Any]:
        return _one_aggregation(self.privacy.noise, self.clients, participants)

    def epsilon(self, releases: int, rounds: int | None = None) -> float:
        """Return the epsilon that so many aggregations have spent, one in each round if not told otherwise.

        With a schedule, one that was repeated counts as one with the most clients.
        """
        if not releases:
            return 0.0
        from dp_accounting import rdp

        rounds, counts = releases if rounds is None else rounds, Counter[int]()
        if self.schedule is not None:
            counts.update(self.schedule.participants(round, self.clients) for round in range(1, rounds + 1))
        counts[self.participants] += releases - counts.total()
        divergences = sum(self._one(clients)[1] * count for clients, count in counts.items() if count)
        return float(rdp.compute_epsilon(self._one(self.participants)[0], divergences, self.privacy.delta)[0])

    def affordable(self, most: int) -> int:
        """Return how many aggregations the budget allows, up to `most`."""
        budget = self.privacy.epsilon
        return most if budget is None else bisect_right(range(most + 1), budget, key=self.epsilon) - 1


@cache
def _one_aggregation(noise: float, clients: int, participants: int) -> tuple[Any, Any]:
    """Compute the Rényi divergences of one aggregation and their orders, which takes most of a second."""
    import dp_accounting
    from dp_accounting import rdp

    gaussian = dp_accounting.GaussianDpEvent(noise / 2)
    event = dp_accounting.SampledWithoutReplacementDpEvent(clients, participants, gaussian)
    accountant = rdp.RdpAccountant(neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE)
    accountant.compose(event)
    return accountant.orders, accountant.rdp

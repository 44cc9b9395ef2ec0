"""The sums of a round in 64-bit integers: exact, the same in any order, and fit to be masked.

Of each number x that is summed, a client sends round(n x 2^k), with n its samples or 1. For each vector k is
the largest whole number with

    bound * (most n) * (most clients) * 2^k < 2^63

so that no sum can overflow as long as every client keeps to the bound. Each client checks that itself, since
nobody else sees its values.
"""

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Literal, NamedTuple

import torch
from torch import Tensor

from eunoe.errors import InputError

Multiplied = Literal["samples", "one"]
# Fewer binary digits than these after the point would be too coarse for a model's change.
LEAST_DIGITS = 12


class OutOfBound(Exception):
    """A value that a client must not send; the message says which."""


class Entry(NamedTuple):
    """A vector that is summed: its size, what it is multiplied by, and its largest absolute value."""

    size: int
    by: Multiplied
    bound: float
    # Whole numbers are sent as they are.
    whole: bool = False


class FixedPoint:
    """Turns the named vectors of a client into one vector of integers, and the sum of such vectors back."""

    def __init__(self, entries: Mapping[str, Entry], max_samples: int, most_clients: int) -> None:
        self.entries, self.max_samples, self.most_clients = dict(entries), max_samples, most_clients
        self.digits = {name: self._digits(name, entry) for name, entry in entries.items()}
        self.size = sum(entry.size for entry in entries.values())

    def _digits(self, name: str, entry: Entry) -> int:
        """Binary digits after the point."""
        # Products of doubles may exceed the exact ones by a last bit or two.
        most = Fraction(entry.bound) * (self.max_samples if entry.by == "samples" else 1)
        most *= 1 + Fraction(1, 2**50)
        # A number is rounded by up to 1/2 after it was scaled.
        room = (Fraction(2**63 - 1) / self.most_clients - 1) / most
        digits = math.floor(math.log2(room)) + 1 if room > 0 else -1
        while digits >= 0 and 2**digits > room:
            digits -= 1
        if digits < (0 if entry.whole else LEAST_DIGITS):
            raise InputError(
                f"secure_aggregation: a bound of {entry.bound:g} for {name!r} with {self.most_clients} "
                f"clients of up to {self.max_samples} samples leaves 64-bit sums {max(digits, 0)} binary "
                f"digits after the point, fewer than {LEAST_DIGITS}: lower the bound"
            )
        return 0 if entry.whole else digits

    def encode(self, values: Mapping[str, Tensor], samples: int) -> Tensor:
        """A client's vectors as one vector of integers; OutOfBound if it must not be sent."""
        if not 1 <= samples <= self.max_samples:
            raise OutOfBound(
                f"it has {samples} samples, more than secure_aggregation.max_samples = {self.max_samples}"
            )
        parts = []
        for name, entry in self.entries.items():
            value = values[name].double().reshape(entry.size)
            if not bool(torch.isfinite(value).all()):
                raise OutOfBound(f"its {name.replace('_', ' ')} is not finite")
            if entry.size and float(value.abs().max()) > entry.bound:
                raise OutOfBound(
                    f"its {name.replace('_', ' ')} has a value of {float(value.abs().max()):.3g}, beyond "
                    f"the bound of {entry.bound:g} of secure_aggregation"
                )
            factor = samples if entry.by == "samples" else 1
            parts.append((value * factor * 2.0 ** self.digits[name]).round().to(torch.int64))
        return torch.cat(parts)

    def decode(self, total: Tensor) -> dict[str, Tensor]:
        """The sums of the clients' vectors, in float64."""
        parts = torch.split(total, [entry.size for entry in self.entries.values()])
        return {
            name: part.double() / 2.0 ** self.digits[name]
            for name, part in zip(self.entries, parts, strict=True)
        }

    def zeros(self) -> Tensor:
        """The sum of no client."""
        return torch.zeros(self.size, dtype=torch.int64)

"""Secure aggregation: the server learns the sum of its clients' vectors only, in 64-bit integers.

A client's vector holds all that the server aggregates (its change times its samples, the change of its float
buffers, the method's uploads, what the server optimizer derives) and the numbers of its training (samples,
steps, losses, norm), but no integer buffers. A simulation adds the same integers that a federation masks, so
both have the same bits.

Of each number x that is summed, a client sends round(n x 2^k), with n its samples or 1. For each vector k is
the largest whole number with

    bound * (most n) * (most clients) * 2^k < 2^63

so that sums are exact in any order, as long as every client keeps to the bound. Each client checks that
itself, since nobody else sees its values.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import NamedTuple

import torch
from torch import Tensor

from eunoe.config.options import SecureAggregation, Training
from eunoe.core.batches import max_steps
from eunoe.errors import InputError, RunFailed, nearest
from eunoe.server.aggregate import Aggregate, Upload
from eunoe.server.aggregator import Aggregator
from eunoe.server.updates import Update

# More samples than pass through a network in one participation.
_MOST_PASSES = 2.0**40
# Numbers of a client's training that are summed, under names that no upload has.
SAMPLES, CLIENTS, STEPS = "number of samples", "number of clients", "number of steps"
FORWARDS, BACKWARDS = "number of forwards", "number of backwards"
LOSS_BEFORE, LOSS_AFTER, LOSSES = "loss before", "loss after", "number of losses"
NORM = "norm of the change"
NUMBERS = (SAMPLES, CLIENTS, STEPS, FORWARDS, BACKWARDS, NORM, LOSS_BEFORE, LOSS_AFTER, LOSSES)
# Values in float32 may exceed their ranges by rounding.
_SLACK = 1e-5
# The least number of binary digits after the point that a model's change needs.
LEAST_DIGITS = 12


class OutOfBound(Exception):
    """A value that a client must not send."""


class Entry(NamedTuple):
    """A vector that is summed: its size, its weight (1 unless "samples") and its largest absolute value."""

    size: int
    by: str
    bound: float
    # Whole numbers are sent as they are.
    whole: bool = False


class FixedPoint:
    """Encodes the named vectors of a client as one vector of integers and decodes sums of such vectors."""

    def __init__(self, entries: Mapping[str, Entry], max_samples: int, most_clients: int) -> None:
        self.entries, self.max_samples, self.most_clients = dict(entries), max_samples, most_clients
        self.digits = {name: self._digits(name, entry) for name, entry in entries.items()}
        self.size = sum(entry.size for entry in entries.values())
        self.bytes = self.size * torch.int64.itemsize

    def _digits(self, name: str, entry: Entry) -> int:
        """Return the binary digits after the point."""
        # Products of doubles may exceed the exact ones by a last bit or two.
        most = Fraction(entry.bound) * (self.max_samples if entry.by == "samples" else 1)
        most *= 1 + Fraction(1, 2**50)
        # A number is rounded by up to 1/2 after it was scaled.
        room = (Fraction(2**63 - 1) / self.most_clients - 1) / most
        digits = int(room).bit_length() - 1
        if digits < (0 if entry.whole else LEAST_DIGITS):
            raise InputError(
                f"secure_aggregation: a bound of {entry.bound:g} for {name!r} with {self.most_clients} "
                f"clients of up to {self.max_samples} samples leaves 64-bit sums {max(digits, 0)} binary "
                f"digits after the point, fewer than {LEAST_DIGITS}: lower the bound"
            )
        return 0 if entry.whole else digits

    def encode(self, values: Mapping[str, Tensor], samples: int) -> Tensor:
        """Encode a client's vectors; raise OutOfBound if they must not be sent."""
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
        """Decode the sums of the clients' vectors, in float64."""
        parts = torch.split(total, [entry.size for entry in self.entries.values()])
        return {key: p.double() / 2.0 ** self.digits[key] for key, p in zip(self.entries, parts, strict=True)}

    def zeros(self) -> Tensor:
        """Return the sum of no client."""
        return torch.zeros(self.size, dtype=torch.int64)


@dataclass(frozen=True)
class SecureSums:
    """How a run sums updates, and how many clients must stay to the end of a round."""

    fixed_point: FixedPoint
    threshold: int
    # A mask of the float buffers that are never negative.
    variances: Tensor
    options: SecureAggregation = field(default_factory=SecureAggregation)

    def with_participants(self, participants: int) -> "SecureSums":
        """Return the sums of a round with so many participants."""
        return replace(self, threshold=self.options.least(participants))


def make_fixed_point(
    options: SecureAggregation,
    aggregate: Aggregate,
    training: Training,
    participants: int,
    max_samples: int,
    memory: int = 0,
) -> FixedPoint:
    """Return the encoding of what an aggregate sums; `memory` is the number of replayed samples."""
    start = aggregate.start
    change = torch.zeros(start.parameters.numel(), dtype=torch.float64)
    entries = {"change": Entry(change.numel(), aggregate.weighting, options.bound)}
    for name, derive in aggregate.derived.items():
        entries[name] = Entry(derive(change).numel(), aggregate.weighting, options.bound)
    entries["float_buffers"] = Entry(start.float_buffers.numel(), "samples", options.bound)
    steps = max_steps(max_samples + memory, training)
    for name, upload in aggregate.uploads.items():
        bound = _bound(upload, options.bound, max_samples, steps)
        entries[name] = Entry(upload.size, upload.combine, bound)
    for name in options.bounds:
        if name not in entries:
            raise InputError(f"secure_aggregation.bounds has no vector {name!r}: {nearest(name, entries)}")
    entries |= {name: entries[name]._replace(bound=bound) for name, bound in options.bounds.items()}
    whole: dict[str, float] = {SAMPLES: max_samples, CLIENTS: 1, LOSSES: 1}
    whole |= dict.fromkeys((STEPS, FORWARDS, BACKWARDS), _MOST_PASSES)
    real = {LOSS_BEFORE: options.bound, LOSS_AFTER: options.bound}
    real[NORM] = options.bound * math.sqrt(change.numel())
    entries |= {name: Entry(1, "one", bound, True) for name, bound in whole.items()}
    entries |= {name: Entry(1, "one", bound) for name, bound in real.items()}
    return FixedPoint(entries, max_samples, participants)


def _bound(upload: Upload, default: float, samples: int, steps: int) -> float:
    """Return the largest absolute value of an upload: what it declares, or the general bound."""
    if upload.highest is None or upload.lowest is None:
        return default
    units = {"client": 1, "sample": samples, "step": steps}[upload.per]
    # With room for an upload in float32 that exceeds its range by rounding.
    return 2 * max(abs(upload.lowest), abs(upload.highest) * units, 1.0)


def encode_update(fixed_point: FixedPoint, aggregator: Aggregator, update: Update) -> Tensor:
    """Encode what a client adds to the round's sum; raise OutOfBound if it must leave the round."""
    if (problem := aggregator.problem(update)) is not None:
        raise OutOfBound(problem)
    aggregate = aggregator.aggregate
    moved = update.weights.parameters.double() - aggregate.start.parameters.double()
    change = aggregator.contribution(moved, update.uploads)
    # Only the client can clip, since the server sees sums only.
    values = aggregate.clip({"change": change, **update.uploads})
    values |= {name: derive(change) for name, derive in aggregate.derived.items()}
    values["float_buffers"] = update.weights.float_buffers.double() - aggregate.start.float_buffers.double()
    numbers = _numbers(update, float(torch.linalg.vector_norm(moved)))
    values |= {name: torch.tensor([number], dtype=torch.float64) for name, number in numbers.items()}
    return fixed_point.encode(values, update.size)


def _numbers(update: Update, norm: float) -> dict[str, float]:
    numbers = {
        SAMPLES: update.size,
        CLIENTS: 1,
        STEPS: update.steps,
        FORWARDS: update.forwards,
        BACKWARDS: update.backwards,
        NORM: norm,
    }
    losses = {LOSS_BEFORE: update.loss_before, LOSS_AFTER: update.loss_after}
    # A method need not have a loss.
    known = all(math.isfinite(loss) for loss in losses.values())
    return {**numbers, **(losses if known else dict.fromkeys(losses, 0.0)), LOSSES: int(known)}


@dataclass
class SecureSum:
    """The sum over the clients of a round, who is in it, and why the others are not."""

    total: Tensor
    clients: list[int] = field(default_factory=list)
    dropped: dict[int, str] = field(default_factory=dict)

    def add(self, fixed_point: FixedPoint, aggregator: Aggregator, update: Update) -> None:
        """Add a client's update, or record why it left."""
        try:
            self.total += encode_update(fixed_point, aggregator, update)
        except OutOfBound as reason:
            self.dropped[update.client] = str(reason)
        else:
            self.clients.append(update.client)


def check_threshold(left: int, of: int, threshold: int, round: int, reasons: Mapping[int, str]) -> None:
    """Raise RunFailed if fewer clients than the threshold are left in a round."""
    if left >= threshold:
        return
    why = "; ".join(f"client {client}: {reason}" for client, reason in sorted(reasons.items()))
    raise RunFailed(
        f"secure aggregation: {left} of {of} clients are left in round {round}, fewer than the threshold of "
        f"{threshold}; nothing was unmasked" + (f"; {why}" if why else "")
    )


def decode_sum(secure: SecureSums, sums: SecureSum, aggregate: Aggregate) -> dict[str, float]:
    """Add the sums of a round to an aggregate; return the sums of its clients' numbers."""
    totals = secure.fixed_point.decode(sums.total)
    numbers = {name: float(totals.pop(name)) for name in NUMBERS}
    if numbers[CLIENTS] != len(sums.clients):
        # A mask that was not removed leaves random numbers.
        raise RunFailed("secure aggregation: a client's shares were wrong, so the sum cannot be read")
    _check_sums(secure, totals | {name: torch.tensor(value) for name, value in numbers.items()}, aggregate)
    entries = secure.fixed_point.entries
    weights = {name: numbers[SAMPLES if entries[name].by == "samples" else CLIENTS] for name in totals}
    aggregate.take(sums.clients, totals, weights)
    return numbers


def _check_sums(secure: SecureSums, totals: Mapping[str, Tensor], aggregate: Aggregate) -> None:
    """Raise RunFailed if clients that keep to their bounds and declared ranges cannot have these sums."""
    fixed_point = secure.fixed_point
    clients, samples = float(totals[CLIENTS]), float(totals[SAMPLES])
    # The others' ranges depend on the samples.
    for name in (SAMPLES, *fixed_point.entries):
        entry, upload = fixed_point.entries[name], aggregate.uploads.get(name)
        weight = samples if entry.by == "samples" else clients
        lowest, highest = -entry.bound * weight, entry.bound * weight
        if entry.whole or name == NORM:
            lowest = clients if name == SAMPLES else 0.0
        # Clipping takes uploads out of their ranges.
        if upload is not None and not aggregate.clips:
            lowest = lowest if upload.lowest is None else upload.lowest * weight
            if upload.highest is not None and upload.per == "client":
                highest = upload.highest * weight
        rounding = 0.0 if entry.whole else clients * 2.0 ** -fixed_point.digits[name]
        _check_range(name, totals[name], lowest, highest, rounding)
    before = aggregate.start.float_buffers.double()[secure.variances] * samples
    variances = before + totals["float_buffers"][secure.variances]
    _check_range("running variances", variances, 0.0, math.inf, 1e-9 * (samples + float(before.sum())))


def _check_range(name: str, total: Tensor, lowest: float, highest: float, rounding: float) -> None:
    for value in map(float, total.aminmax() if total.numel() else ()):
        if not lowest - rounding - _SLACK * abs(lowest) <= value <= highest + rounding + _SLACK * highest:
            raise RunFailed(
                f"secure aggregation: the sum of {name.replace('_', ' ')} has a value of {value:g}, outside "
                f"of {lowest:g} to {highest:g}: a client of this round is broken or does not tell the truth"
            )

"""What the server learns of a round under secure aggregation: the sum of its clients' vectors, in integers.

A client's vector holds all that the server aggregates (its change times its samples, the change of its float
buffers, the method's uploads, what the server optimizer derives) and the numbers of its training (samples,
steps, losses, norm). A simulation adds the same integers that a federation masks, so both have the same
bits. Integer buffers are not sent.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from eunoe.config.options import SecureAggregation
from eunoe.core.batches import max_steps
from eunoe.engines.aggregation import empty_aggregate
from eunoe.engines.client import Broadcast, Update
from eunoe.engines.simulation import Simulation
from eunoe.engines.update_checks import form_problem
from eunoe.errors import InputError, RunFailed, nearest
from eunoe.methods.base import Method
from eunoe.methods.context import RoundContext
from eunoe.server.aggregate import Aggregate, Upload
from eunoe.server.fixed_point import Entry, FixedPoint, Multiplied, OutOfBound
from eunoe.server.privacy import clipped

# More samples than pass through a network in one participation.
_MOST_PASSES = 2.0**40
# Numbers of a client's training that are summed, under names that no upload has.
SAMPLES, CLIENTS, STEPS = "number of samples", "number of clients", "number of steps"
FORWARDS, BACKWARDS = "number of forwards", "number of backwards"
LOSS_BEFORE, LOSS_AFTER, LOSSES = "loss before", "loss after", "number of losses"
NORM = "norm of the change"


def fixed_point(
    options: SecureAggregation, method: Method, context: RoundContext, max_samples: int, memory: int = 0
) -> FixedPoint:
    """How the vectors of this run's clients are summed, given how many earlier samples each trains on too."""
    change = torch.zeros(context.parameters, dtype=torch.float64)
    by = _multiplied(method.weighting)
    entries = {"change": Entry(context.parameters, by, options.bound)}
    for name, derive in context.server_optimizer.derived().items():
        entries[name] = Entry(derive(change).numel(), by, options.bound)
    entries["float_buffers"] = Entry(context.float_buffers, "samples", options.bound)
    steps = max_steps(max_samples + memory, context.training)
    for name, upload in method.uploads(context).items():
        bound = _bound(upload, options.bound, max_samples, steps)
        entries[name] = Entry(upload.size, _multiplied(upload.combine), bound)
    for name in options.bounds:
        if name not in entries:
            raise InputError(
                f"secure_aggregation.bounds: nothing that is summed is called {name!r}: "
                f"{nearest(name, entries)}"
            )
    entries |= {name: entries[name]._replace(bound=bound) for name, bound in options.bounds.items()}
    whole: dict[str, float] = {SAMPLES: max_samples, CLIENTS: 1, LOSSES: 1}
    whole |= dict.fromkeys((STEPS, FORWARDS, BACKWARDS), _MOST_PASSES)
    real = {LOSS_BEFORE: options.bound, LOSS_AFTER: options.bound}
    real[NORM] = options.bound * math.sqrt(context.parameters)
    entries |= {name: Entry(1, "one", bound, True) for name, bound in whole.items()}
    entries |= {name: Entry(1, "one", bound) for name, bound in real.items()}
    return FixedPoint(entries, max_samples, context.participants)


def _multiplied(combine: str) -> Multiplied:
    return "samples" if combine == "samples" else "one"


def _bound(upload: Upload, otherwise: float, samples: int, steps: int) -> float:
    """The largest absolute value of an upload: what it declares, or the general one."""
    if upload.highest is None or upload.lowest is None:
        return otherwise
    units = {"client": 1, "sample": samples, "step": steps}[upload.per]
    # With room for an upload in float32 that exceeds its range by rounding.
    return 2 * max(abs(upload.lowest), abs(upload.highest) * units, 1.0)


def encoded(simulation: Simulation, update: Update, broadcast: Broadcast) -> Tensor:
    """What a client adds to the round's sum; OutOfBound says why it must leave the round instead."""
    assert simulation.fixed_point is not None
    if update.skipped is not None:
        raise OutOfBound(update.skipped)
    method, context, start = simulation.method, simulation.context_in(broadcast.round), broadcast.weights
    limits = simulation.limits(update.client)
    if (problem := form_problem(update, start, method.uploads(context), *limits)) is not None:
        raise OutOfBound(problem)
    moved = update.weights.parameters.double() - start.parameters.double()
    change = method.contribution(moved, update.uploads)
    values = {"change": change, **update.uploads}
    if context.privacy is not None:
        # Nobody else can: the server sees sums only.
        values = clipped(values, context.privacy.clip)
    values |= {name: derive(change) for name, derive in context.server_optimizer.derived().items()}
    values["float_buffers"] = update.weights.float_buffers.double() - start.float_buffers.double()
    numbers = _numbers(update, float(torch.linalg.vector_norm(moved)))
    values |= {name: torch.tensor([number], dtype=torch.float64) for name, number in numbers.items()}
    return simulation.fixed_point.encode(values, update.size)


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

    def add(self, simulation: Simulation, update: Update, broadcast: Broadcast) -> None:
        """Add a client's update, or note why it left."""
        try:
            self.total += encoded(simulation, update, broadcast)
        except OutOfBound as reason:
            self.dropped[update.client] = str(reason)
        else:
            self.clients.append(update.client)


def enough(left: int, of: int, threshold: int, round: int, reasons: Mapping[int, str]) -> None:
    """Raise RunFailed if so few clients are left in a round that nothing may be unmasked."""
    if left >= threshold:
        return
    why = "; ".join(f"client {client}: {reason}" for client, reason in sorted(reasons.items()))
    raise RunFailed(
        f"secure aggregation: {left} of {of} clients are left in round {round}, fewer than the threshold of "
        f"{threshold}; nothing was unmasked" + (f"; {why}" if why else "")
    )


def aggregate_of(
    simulation: Simulation, found: SecureSum, broadcast: Broadcast
) -> tuple[Aggregate, dict[str, float]]:
    """The aggregate of a round, and the sums of its clients' numbers."""
    assert simulation.fixed_point is not None
    entries, start = simulation.fixed_point.entries, broadcast.weights
    sums = simulation.fixed_point.decode(found.total)
    numbers = {name: float(sums.pop(name)) for name in _numbers(Update(0, 0, start, {}), 0.0)}
    if numbers[CLIENTS] != len(found.clients):
        # A mask that was not removed leaves nothing but noise.
        raise RunFailed("secure aggregation: a client's shares were wrong, and the sum cannot be read")
    weights = {name: numbers[SAMPLES if entries[name].by == "samples" else CLIENTS] for name in sums}
    aggregate = empty_aggregate(simulation.method, start, simulation.context_in(broadcast.round))
    aggregate.take(found.clients, sums, weights)
    return aggregate, numbers

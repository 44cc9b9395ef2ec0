"""Stale updates: clients train from the model of an earlier round, with simulated delays.

    delay   d of client k in round t: uniform in 0..max, or geometric: P(d) = 2^-(d + 1), at most max
    client  y_k <- w_{t-d} after [training]; it has all that the server sent in round t - d
    server  receives w_t + s(d) (y_k - w_{t-d});  s(d) = 1, or (1 + d)^-1/2 (polynomial)

This is buffered asynchronous aggregation (FedBuff, Nguyen et al., 2022, https://arxiv.org/abs/2106.06639)
with delays in rounds, which follow from (seed, round, client). No delay goes back before round 1. Statistics
of normalization and uploads are aggregated as the client sends them. What was sent in earlier rounds travels
with the broadcast, so every engine simulates the delays alike.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from torch import Tensor

from eunoe.config.options import Staleness
from eunoe.core.flat_model import Vectors, Weights
from eunoe.core.rng import generator
from eunoe.methods.context import RoundContext
from eunoe.server.updates import Broadcast, Update

# Names of the vectors of earlier rounds: "sent 2 rounds ago: weights/parameters".
_PAST = "sent {} rounds ago: "


def delay_of(options: Staleness | None, context: RoundContext, client: int) -> int:
    """Return the delay of a client's update, in rounds."""
    if options is None:
        return 0
    rng = generator(context.seed, "staleness", context.round, client)
    geometric = options.distribution == "geometric"
    delay = int(rng.geometric(0.5)) - 1 if geometric else int(rng.integers(options.max + 1))
    return min(delay, options.max, context.round - 1)


def add_past(broadcast: Broadcast, past: Sequence[Vectors]) -> Broadcast:
    """Return a broadcast with what was sent in earlier rounds, the newest first."""
    earlier = {
        _PAST.format(number) + name: value
        for number, vectors in enumerate(past, start=1)
        for name, value in vectors.items()
    }
    return replace(broadcast, shared={**broadcast.shared, **earlier})


def without_past(shared: Mapping[str, Tensor]) -> Vectors:
    """Return what the method sends in this round."""
    start = _PAST.partition("{}")[0]
    return {name: value for name, value in shared.items() if not name.startswith(start)}


def vectors_sent(broadcast: Broadcast) -> Vectors:
    """Return the vectors of a broadcast as later rounds keep them."""
    groups = {"weights": broadcast.weights.vectors(), "shared": without_past(broadcast.shared)}
    # Copies: a checkpoint refuses tensors that share memory, as with the model of an empty round.
    return {f"{group}/{name}": v.clone() for group, vectors in groups.items() for name, v in vectors.items()}


def stale_broadcast(
    options: Staleness | None, context: RoundContext, client: int, sent: Broadcast
) -> Broadcast:
    """Return what a client trains from: the broadcast of the round that its delay goes back to."""
    delay = delay_of(options, context, client)
    if not delay:
        return sent if options is None else replace(sent, shared=without_past(sent.shared))
    vectors = _group(sent.shared, _PAST.format(delay))
    weights = Weights.from_vectors(_group(vectors, "weights/"))
    return Broadcast(sent.round, weights, _group(vectors, "shared/"))


def rebase_update(
    options: Staleness | None, context: RoundContext, update: Update, received: Broadcast, sent: Broadcast
) -> Update:
    """Return an update whose change, weighted by its delay, starts from the newest model."""
    delay = delay_of(options, context, update.client)
    if options is None or not delay:
        return update
    scale = (1 + delay) ** -0.5 if options.weighting == "polynomial" else 1.0
    newest, start = (each.weights.parameters.cpu() for each in (sent, received))
    parameters = newest + scale * (update.weights.parameters - start)
    return replace(update, weights=replace(update.weights, parameters=parameters))


def _group(vectors: Mapping[str, Tensor], start: str) -> Vectors:
    return {name.removeprefix(start): value for name, value in vectors.items() if name.startswith(start)}

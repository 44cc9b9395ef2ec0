"""Parts of a round's record: the clients' part with privacy, and what the round moves over a network."""

from collections.abc import Sequence

from eunoe.engines.client import Broadcast
from eunoe.engines.compression import upload_bytes
from eunoe.engines.simulation import Simulation
from eunoe.methods.context import RoundContext
from eunoe.store.schema import RoundRecord


def private_record(clients: Sequence[int], context: RoundContext) -> RoundRecord:
    """The clients' part of a round's record with privacy: nothing that depends on a client's data."""
    # Where clients are drawn in secret, their names are not recorded.
    secret: RoundRecord = {"participants": len(clients)} if context.secret else {}
    return {
        "clients": [] if context.secret else list(clients),
        **secret,
        "sizes": [],
        "steps": [],
        "loss_before": [],
        "loss_after": [],
        "update_norms": [],
        "dropped": [],
    }


def traffic(simulation: Simulation, broadcast: Broadcast, clients: int, sent: int) -> RoundRecord:
    """Bytes sent in a round: down to all its clients, and up from those that sent an update."""
    if not simulation.method.aggregates:
        return {"bytes_up": 0, "bytes_down": 0}
    weights = broadcast.weights
    model = sum(
        v.numel() * v.itemsize for v in (weights.parameters, weights.float_buffers, weights.int_buffers)
    )
    extra = sum(v.numel() * v.itemsize for v in broadcast.shared.values())
    buffers = model - weights.parameters.numel() * weights.parameters.itemsize
    uploads = simulation.method.uploads(simulation.context)
    sum_alone = simulation.fixed_point
    if sum_alone is None:
        each = buffers + upload_bytes(simulation.compress, uploads, simulation.context)
    else:
        each = sum_alone.size * sum_alone.zeros().itemsize
    return {"bytes_up": sent * each, "bytes_down": clients * (model + extra)}

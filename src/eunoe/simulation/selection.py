"""Which clients take part in a round."""

from collections.abc import Sequence
from random import SystemRandom

import numpy as np

from eunoe.core.rng import generator
from eunoe.engines.simulation import Simulation

# The last attempt to find clients that are there asks so many, or so many for each that takes part.
ASKED, ASKED_EACH = 1_000, 100


def select_clients(simulation: Simulation, round: int) -> list[int]:
    """The clients of a round, in the order in which they train and are summed: large ones first."""
    if not simulation.method.trains_clients:
        return []
    context, federation = simulation.context, simulation.federation
    if context.secret and context.privacy is not None and context.privacy.noise:
        # What a sample spends is counted for one that nobody can know.
        chosen = np.array(SystemRandom().sample(range(context.clients), context.participants))
    else:
        chosen = generator(context.seed, "clients", round).choice(
            context.clients, context.participants, replace=False, shuffle=False
        )
    if federation.changes is not None:
        chosen = np.array(those_present(simulation, round, [int(client) for client in chosen]), np.int64)
    sizes = federation.sizes_of(chosen)
    return [int(client) for client in chosen[np.lexsort((chosen, -sizes))]]


def those_present(simulation: Simulation, round: int, drawn: Sequence[int]) -> list[int]:
    """The drawn clients that are there, and others in place of those that are not.

    A round in which hardly anybody is there has fewer clients: a million are not all asked for it.
    """
    context, federation = simulation.context, simulation.federation
    present = [client for client in drawn if federation.present(client)]
    asked, many = set(drawn), len(drawn)
    most = min(context.clients, max(ASKED, ASKED_EACH * len(drawn)))
    while len(present) < len(drawn) and many < most:
        # Ever more are asked, so that the first few that are there cost little.
        many = min(4 * many, most)
        others = generator(context.seed, "clients in their place", round).choice(
            context.clients, many, replace=False
        )
        for client in map(int, others):
            if len(present) == len(drawn):
                break
            if client not in asked:
                asked.add(client)
                present += [client] if federation.present(client) else []
    return present

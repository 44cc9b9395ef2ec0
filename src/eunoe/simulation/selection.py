"""Which clients take part in a round."""

from collections.abc import Sequence
from random import SystemRandom

import numpy as np

from eunoe.core.rng import generator
from eunoe.engines.simulation import Simulation

# The last attempt to find clients that are present asks so many, or so many for each participant.
ASKED, ASKED_EACH = 1_000, 100


def select_clients(simulation: Simulation) -> list[int]:
    """Select the clients of a round, in the order in which they train and are summed: large ones first."""
    if not simulation.method.trains_clients:
        return []
    context, federation = simulation.context, simulation.federation
    count, participants = context.data.clients, context.participants
    if context.privacy is not None and context.privacy.hides_clients:
        # Epsilon is computed for a sample that nobody knows.
        selected = np.array(SystemRandom().sample(range(count), participants))
    else:
        rng = generator(context.seed, "clients", context.round)
        selected = rng.choice(count, participants, replace=False, shuffle=False)
    if federation.changes is not None:
        selected = np.array(replace_absent(simulation, [int(client) for client in selected]), np.int64)
    sizes = federation.sizes_of(selected)
    return [int(client) for client in selected[np.lexsort((selected, -sizes))]]


def replace_absent(simulation: Simulation, drawn: Sequence[int]) -> list[int]:
    """Return the drawn clients that are present, and others in place of those that are not.

    A round in which hardly anybody is present has fewer clients: not all of a million are asked.
    """
    context, federation = simulation.context, simulation.federation
    present = [client for client in drawn if federation.present(client)]
    asked, many = set(drawn), len(drawn)
    most = min(context.data.clients, max(ASKED, ASKED_EACH * len(drawn)))
    while len(present) < len(drawn) and many < most:
        # Ever more are asked, so that the first few that are present cost little.
        many = min(4 * many, most)
        rng = generator(context.seed, "clients in their place", context.round)
        for client in map(int, rng.choice(context.data.clients, many, replace=False)):
            if len(present) == len(drawn):
                break
            if client not in asked:
                asked.add(client)
                present += [client] if federation.present(client) else []
    return present

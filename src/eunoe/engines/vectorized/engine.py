"""Trains many clients at once in this process: a cohort is a matrix with a row per client, under vmap.

For small models, where Python costs more than arithmetic, this is several times faster than one client
after the other. Results differ from the other engines in the last bits, since sums are formed in
another order. Clients that cannot be vectorized train one after the other, with a warning.
"""

from typing import Annotated

from pydantic import Field

from eunoe.engines.base import Engine
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import LocalEvaluator
from eunoe.engines.simulation import Simulation
from eunoe.engines.vectorized.trainer import CohortTrainer

# The most parameters of a cohort's models together, and the most clients, from the engine benchmark.
_PARAMETERS, _CLIENTS = 2_000_000, 256


def cohort_of(parameters: int) -> int:
    """The cohort size for a model with this many parameters."""
    return max(2, min(_CLIENTS, _PARAMETERS // parameters))


class Vectorized(Engine):
    """Many clients at once in this process; for small models."""

    def __init__(
        self,
        simulation: Simulation,
        states: ClientStates,
        cohort: Annotated[
            int | None, Field(ge=1, description="Clients that train at once; follows from the model.")
        ] = None,
    ) -> None:
        self.cohort = cohort or cohort_of(simulation.model.parameters.numel())
        trainer = CohortTrainer(simulation, states, self.cohort)
        super().__init__(simulation, states, trainer, LocalEvaluator(simulation))

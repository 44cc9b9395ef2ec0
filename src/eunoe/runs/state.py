"""How far a run has come: all that its next round depends on."""

from dataclasses import dataclass, field
from typing import Any

from eunoe.core.flat_model import Vectors, Weights
from eunoe.server.averaging import averaged
from eunoe.training.simulation import Simulation


@dataclass
class RunState:
    """How far a run has come: all that the next round depends on."""

    weights: Weights
    server: Vectors
    round: int = 0
    # What the mean of the global models is computed from, if it is.
    average: Vectors = field(default_factory=dict)
    best: Weights | None = None
    best_accuracy: float = -1.0
    # What metrics remember, by metric: tensors, and what JSON can say.
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0


def start_state(simulation: Simulation) -> RunState:
    """The state of a run before its first round; the server's vectors are on the CPU, whatever trains."""
    weights = simulation.model.weights.copy().to("cpu")
    server = simulation.method.start(weights, simulation.context)
    return RunState(weights, {**server, **simulation.context.server_optimizer.start(weights.parameters)})


def evaluated_model(simulation: Simulation, run_state: RunState) -> Weights:
    """The model that is evaluated and exported: the one that the method reports, or the mean of those."""
    reported = simulation.method.reported(run_state.server, run_state.weights)
    return averaged(simulation.averaging, run_state.average, reported)

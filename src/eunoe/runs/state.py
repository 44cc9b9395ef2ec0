"""How far a run has come: all that its next round depends on."""

from dataclasses import dataclass, field
from typing import Any

from eunoe.core.flat_model import Vectors, Weights
from eunoe.training.simulation import Simulation
from eunoe.training.update_checks import Usual


@dataclass
class RunState:
    """How far a run has come: all that the next round depends on."""

    weights: Weights
    server: Vectors
    round: int = 0
    best: Weights | None = None
    best_accuracy: float = -1.0
    # What metrics remember, by metric: tensors, and what JSON can say.
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    # The usual norms of the last rounds' updates, by vector.
    norms: dict[str, list[Usual]] = field(default_factory=dict)


def start_state(simulation: Simulation) -> RunState:
    """The state of a run before its first round; the server's vectors are on the CPU, whatever trains."""
    weights = simulation.model.weights.copy().to("cpu")
    server = simulation.method.start(weights, simulation.context)
    return RunState(weights, {**server, **simulation.context.server_optimizer.start(weights.parameters)})

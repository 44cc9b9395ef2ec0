"""The state of a run between rounds."""

from dataclasses import dataclass, field
from typing import Any

from eunoe.core.flat_model import Vectors, Weights
from eunoe.engines.simulation import Simulation
from eunoe.server.averaging import average_model
from eunoe.server.update_checks import NormStats


@dataclass
class RunState:
    """The state of a run after a round: everything the next round depends on."""

    weights: Weights
    server: Vectors
    round: int = 0
    # The last round whose records are written; the state is consistent if it equals `round`.
    recorded: int = 0
    # The state of averaging, if configured.
    average: Vectors = field(default_factory=dict)
    best: Weights | None = None
    # Or the main metric of another task.
    best_accuracy: float = -1.0
    # The state of each metric, by name: tensors and JSON values.
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    # The median norms of the last rounds' updates, by vector.
    norms: dict[str, list[NormStats]] = field(default_factory=dict)
    # What was sent in the last rounds, the newest first, for stale updates.
    past: list[Vectors] = field(default_factory=list)
    # The sums of the clients' private parameters, and the number of clients that have some.
    private: Vectors = field(default_factory=dict)


def start_state(simulation: Simulation) -> RunState:
    """Return the state before the first round; the server's vectors are on the CPU, whatever the device."""
    weights = simulation.model.weights.copy().to("cpu")
    server = simulation.method.start(weights, simulation.context)
    return RunState(weights, {**server, **simulation.context.server_optimizer.start(weights.parameters)})


def evaluated_model(simulation: Simulation, run_state: RunState) -> Weights:
    """Return the evaluated and exported model: the method's or its average, with the mean private part."""
    reported = simulation.method.reported(run_state.server, run_state.weights)
    averaged = average_model(simulation.averaging, run_state.average, reported)
    private = simulation.private
    return averaged if private is None else private.put_mean(averaged, run_state.private)

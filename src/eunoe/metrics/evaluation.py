"""How good a model is: on the test set, and on the clients' own parts together and one by one."""

from typing import Any

import numpy as np

from eunoe.core.flat_model import Weights
from eunoe.data.federation import Part
from eunoe.engines.base import Engine, Predictions, Rows
from eunoe.metrics.forgetting import per_class_accuracy, spread
from eunoe.training.simulation import Simulation


class Evaluator:
    """Evaluates models of one job on its test set and on what its clients keep to validate and to test on."""

    def __init__(self, simulation: Simulation, validation: bool = True, test: bool = True) -> None:
        federation = simulation.federation
        self.simulation = simulation
        self.places: dict[str, Rows] = {}
        parts: tuple[tuple[str, Part, bool], ...] = (
            ("validation", "validation", validation),
            ("client_test", "test", test),
        )
        for name, part, asked in parts:
            rows, owners = federation.pooled(part)
            if asked and len(rows):
                self.places[name] = Rows("clients", rows, owners)
        if test and len(federation.data.test):
            self.places["test"] = Rows("test", np.arange(len(federation.data.test)))

    def __call__(self, engine: Engine, weights: Weights) -> dict[str, dict[str, Any]]:
        """Accuracy, cross-entropy and per-class accuracy by place; for clients also how they differ."""
        here = {
            name: self.measures(place, engine.evaluate([weights], place)[0])
            for name, place in self.places.items()
        }
        return here | engine.measured_elsewhere(weights)

    def measures(self, place: Rows, predictions: Predictions) -> dict[str, Any]:
        """What the record of a round says of the predictions on a place."""
        labels = self.simulation.federation.samples(place.source).y.numpy()[place.rows]
        right = predictions.classes == labels
        measures: dict[str, Any] = {
            "accuracy": float(right.mean()),
            "loss": float(predictions.losses.mean()),
            "per_class": per_class_accuracy(
                predictions.classes, labels, self.simulation.federation.classes
            ).tolist(),
        }
        if place.owners is not None:
            _, owner = np.unique(place.owners, return_inverse=True)
            by_client = np.bincount(owner, right) / np.bincount(owner)
            numbers = spread(by_client)
            measures["clients"] = {
                "mean": numbers.mean,
                "deviation": numbers.deviation,
                "worst_tenth": numbers.worst_tenth,
            }
        return measures

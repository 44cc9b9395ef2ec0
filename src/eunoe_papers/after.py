"""Measurements on finished runs, by the names used as `after` in an experiment."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from eunoe.metrics.forgetting import per_class_accuracy, reweighted_accuracy
from eunoe.simulation.run import Run

if TYPE_CHECKING:
    from torch import Tensor


def measure_personal_gain(run: Run) -> dict[str, float]:
    """Measure the accuracy in the clients' label mix, with and without their class shares in the logits."""
    import torch

    from eunoe.losses.base import adjust_for_prior

    federation = run.simulation.federation
    labels = federation.data.test.y.numpy()
    model = run.model()
    with torch.no_grad():
        chunks = torch.split(torch.arange(len(labels)), 500)
        logits = torch.cat([model(federation.inputs("test", rows)) for rows in chunks])

    def accuracy(scores: "Tensor", counts: "Tensor") -> float:
        per_class = per_class_accuracy(scores.argmax(1).numpy(), labels, federation.classes)
        return float(reweighted_accuracy(per_class, counts[None])[0])

    counts = [federation.counts(client) for client in range(len(federation))]
    without = sum(accuracy(logits, count) for count in counts) / len(counts)
    shares = sum(accuracy(adjust_for_prior(logits, count), count) for count in counts) / len(counts)
    return {"personal_gain": 100 * (shares - without), "personal_without": without, "personal_with": shares}


def count_classes(run: Run) -> dict[str, float]:
    """Count the classes that a client has on average."""
    counts = run.simulation.federation.all_counts()
    return {"classes_per_client": float((counts > 0).sum(1).mean())}


AFTER: dict[str, Callable[[Run], dict[str, float]]] = {
    "personal_gain": measure_personal_gain,
    "classes_per_client": count_classes,
}

"""A metric of a user's own, as it would stand in a file beside the config."""

from eunoe.metrics import Evaluation, EvaluationMetric, Metric, Snapshot


class WorstClass(Metric):
    """Accuracy of the worst class on the test set, the lowest that it ever was, and each class's mean."""

    start: float = 1.0
    _rounds = 0
    _now = 0.0
    _lowest = None
    _sums = None

    def update(self, model: Snapshot) -> None:
        per_class = model.evaluations["test"].per_class
        self._now = float(per_class.min())
        self._lowest = min(self.start if self._lowest is None else self._lowest, self._now)
        self._rounds += 1
        sums = model.parameters.new_tensor(per_class)
        self._sums = sums if self._sums is None else self._sums + sums

    def compute(self) -> dict[str, object]:
        return {"value": self._now, "lowest": self._lowest, "mean": (self._sums / self._rounds).tolist()}

    def state(self) -> dict[str, object]:
        return {"rounds": self._rounds, "lowest": self._lowest, "sums": self._sums}

    def restore(self, state: dict) -> None:
        self._rounds, self._lowest, self._sums = state["rounds"], state["lowest"], state["sums"]


class Brier(EvaluationMetric):
    """Squared distance of the probabilities from the truth."""

    needs = ("logits",)

    def measure(self, evaluation: Evaluation) -> float:
        truth = evaluation.labels[:, None] == range(evaluation.class_count)
        return float(((evaluation.probabilities - truth) ** 2).sum(axis=1).mean())

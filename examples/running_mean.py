"""A method of your own: evaluate the running mean of the global models instead of the last one.

eunoe run --set method.name=running_mean:RunningMean --set method.decay=0.8     (in this folder)
"""

from pydantic import Field

from eunoe.methods import Aggregate, Merged, Method, RoundContext, Vectors, Weights


class RunningMean(Method):
    """FedAvg whose reported model is a running mean of the global models.

    mean <- decay * mean + (1 - decay) * w after every round; clients still start from w.
    """

    decay: float = Field(0.8, ge=0, lt=1, description="How much of the mean a round keeps.")

    def start(self, weights: Weights, context: RoundContext) -> Vectors:
        return {"mean": weights.parameters.clone()}

    def merge(self, server: Vectors, aggregate: Aggregate, context: RoundContext) -> Merged:
        merged = super().merge(server, aggregate, context)
        mean = merged.server["mean"].lerp(merged.weights.parameters, 1 - self.decay)
        return Merged(merged.weights, {**merged.server, "mean": mean}, merged.record)

    def reported(self, server: Vectors, weights: Weights) -> Weights:
        return Weights(server["mean"], weights.float_buffers, weights.int_buffers)

"""A method of your own: bound how far a client moves the model.

eunoe run --set method.name=bounded_updates:BoundedUpdates --set method.bound=0.5     (in this folder)
"""

from collections.abc import Mapping

from pydantic import Field
from torch import Tensor

from eunoe.methods import Method


class BoundedUpdates(Method):
    """FedAvg that scales the change of a client down to a maximum norm.

    w <- w + mean of d_k min(1, bound / ||d_k||), where d_k = y_k - w.
    """

    bound: float = Field(1.0, gt=0, description="Largest norm of a client's change.")

    def contribution(self, change: Tensor, uploads: Mapping[str, Tensor]) -> Tensor:
        return change * (self.bound / change.norm()).clamp(max=1.0)

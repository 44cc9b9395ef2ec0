"""Why clients cannot be vectorized and train one after the other instead."""

from torch import nn

from eunoe.engines.simulation import Simulation
from eunoe.errors import NotVectorizable, first_line

# Messages of torch's transforms for unsupported operations, raised as plain RuntimeError.
_TRANSFORMS = ("vmap", "functorch", "BatchedTensor", "doesn't have storage", "During a grad")


def declared_reason(simulation: Simulation) -> str | None:
    """Why no client of a simulation can be vectorized, if that is known before it trains."""
    if not simulation.method.vectorizes:
        return f"the method {type(simulation.method).__name__} does not vectorize"
    if any(_draws(module) for module in simulation.model.module.modules()):
        return "the model draws random numbers (dropout)"
    return None


def _draws(module: nn.Module) -> bool:
    """Whether a layer draws random numbers in training."""
    if isinstance(module, nn.modules.dropout._DropoutNd):
        return module.p > 0
    return isinstance(module, nn.RReLU)


def reason_of(error: Exception) -> str | None:
    """The reason in an exception, or None if it is an error that the user must see."""
    if isinstance(error, NotVectorizable):
        return str(error)
    if isinstance(error, RuntimeError) and any(phrase in str(error) for phrase in _TRANSFORMS):
        return f"this could not be vectorized ({first_line(error)})"
    return None

"""Functions under vmap without the price of vmap, once they have run often enough with the same shapes.

For small models nearly all of a step's time is what vmap and differentiation cost in Python. The tensor
operations that come of them do not depend on the values, so they are recorded once and then run alone:
the same operations on the same numbers, so it makes no difference to a result when that begins.
"""

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch.func import vmap

T = TypeVar("T")

# Shapes that change all the time must not fill the memory.
_SHAPES_KEPT = 64


class Compiled:
    """A function of one client, called with many.

    `noticed` is what the function has looked at that changes by the round or the step and is no tensor.
    """

    def __init__(self, module: nn.Module, noticed: Callable[[], set[str]], calls_before: int) -> None:
        self._noticed, self._calls_before = noticed, calls_before
        self._constants = {v.data_ptr() for v in (*module.parameters(), *module.buffers())}
        self._calls: dict[Any, int] = {}
        self._recorded: dict[Any, Callable[..., Any] | None] = {}

    def __call__(
        self,
        function: Callable[..., T],
        names: tuple[str, ...],
        dimensions: tuple[int | None, ...],
        *tensors: Tensor,
    ) -> T:
        """The function's results for each index of the tensors' given dimensions.

        Calls with tensors of the same names, dimensions and shapes must do the same.
        """
        key = names, dimensions, tuple(tensor.shape for tensor in tensors)
        recorded = self._recorded.get(key)
        if recorded is None:
            if key in self._recorded or not self._often(key):
                return vmap(function, dimensions)(*tensors)
            recorded = self._recorded[key] = self._record(vmap(function, dimensions), tensors)
            if recorded is None:
                return self(function, names, dimensions, *tensors)
        with torch.inference_mode():
            result: T = recorded(*tensors)
            return result

    def _often(self, key: Any) -> bool:
        if len(self._calls) > _SHAPES_KEPT:
            self._calls, self._recorded = {}, {}
        self._calls[key] = self._calls.get(key, 0) + 1
        return self._calls[key] > self._calls_before

    def _record(self, function: Callable[..., Any], tensors: tuple[Tensor, ...]) -> Callable[..., Any] | None:
        """The function's operations as a function of their own; None if they could differ the next time."""
        from torch.fx.experimental.proxy_tensor import make_fx

        self._noticed().clear()
        try:
            recorded = make_fx(function)(*tensors)
        except Exception:
            # What cannot be recorded still runs under vmap.
            return None
        for node in recorded.graph.nodes:
            if node.op == "get_attr":
                constant = getattr(recorded, node.target)
                if constant.numel() > 1 and constant.data_ptr() not in self._constants:
                    # It looked at a tensor that is no argument and may be another one next time.
                    return None
        if self._noticed():
            return None
        _simplify(recorded)
        return _scripted(recorded, tensors)


def _scripted(recorded: torch.fx.GraphModule, tensors: tuple[Tensor, ...]) -> Callable[..., Any]:
    """The operations run by TorchScript, which spares Python between them; as they are if it cannot."""
    try:
        with warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            return torch.jit.trace(recorded, tensors, check_trace=False).forward  # type: ignore[no-any-return, no-untyped-call]
    except Exception:
        return recorded.forward


def _simplify(recorded: torch.fx.GraphModule) -> None:
    """Leave out operations that change nothing."""
    aten = torch.ops.aten
    calls = [node for node in recorded.graph.nodes if node.op == "call_function"]
    writes = any(getattr(getattr(n.target, "_schema", None), "is_mutable", False) for n in calls)
    shaping = (aten.view.default, aten._unsafe_view.default, aten.expand.default)
    for node in calls:
        if node.target in shaping:
            idle = node.meta["val"].shape == node.args[0].meta["val"].shape
        else:
            # A product is a copy, which matters if anything is written to.
            idle = node.target is aten.mul.Scalar and node.args[1] == 1 and not writes
        if idle:
            node.replace_all_uses_with(node.args[0])
    recorded.graph.eliminate_dead_code()
    recorded.recompile()

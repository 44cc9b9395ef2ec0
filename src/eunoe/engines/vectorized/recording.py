"""Records steps under vmap and replays them without its overhead, once shapes have repeated often enough.

For small models nearly all of a step's time is the Python overhead of vmap and differentiation. The resulting
tensor operations do not depend on the values, so they are recorded once and then replayed: the same
operations on the same numbers, so the results do not depend on when replaying begins.
"""

import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from eunoe.engines.vectorized.inputs import StackStep, StepNumbers

# Shapes that keep changing must not fill the memory.
_SHAPES_KEPT = 64
# In place of a step's numbers (lr, round, steps_taken): the recording shows what is computed with them.
_NUMBERS = (torch.tensor(0.5, dtype=torch.float64), torch.tensor(1), torch.tensor(0))

Recorded = Callable[..., Any]


class Recorder:
    """Runs the steps of stacks, by a recording where shapes repeat and it is possible."""

    def __init__(self, module: nn.Module, calls_before: int) -> None:
        self._calls_before = calls_before
        self._constants = {v.data_ptr() for v in (*module.parameters(), *module.buffers())}
        self._calls = Counter[Any]()
        self._recorded: dict[Any, Recorded | None] = {}

    def __call__(self, step: StackStep) -> Any:
        """Return the step's results."""
        tensors = step.tensors
        key = step.structure, tuple(tensor.shape for tensor in tensors), step.dimensions
        if key not in self._recorded:
            if len(self._calls) > _SHAPES_KEPT:
                self._calls, self._recorded = Counter(), {}
            self._calls[key] += 1
            if self._calls[key] <= self._calls_before:
                return step()
            self._recorded[key] = self._record(step, tensors)
        recorded = self._recorded[key]
        if recorded is None:
            return step()
        with torch.inference_mode():
            return recorded(*_NUMBERS, *tensors)

    def _record(self, step: StackStep, tensors: list[Tensor]) -> Recorded | None:
        """Return the step's operations as a function of its tensors; None if they could differ next time."""
        from torch.fx.experimental.proxy_tensor import make_fx

        def operations(lr: Any, round: Any, steps_taken: Any, *tensors: Tensor) -> Any:
            return step.run(StepNumbers(lr, round, steps_taken), *tensors)

        try:
            recorded = make_fx(operations)(*_NUMBERS, *tensors)
        except Exception:
            # The same step has run many times, so only recording failed: it keeps running unrecorded.
            return None
        inputs = [node for node in recorded.graph.nodes if node.op == "placeholder"]
        if any(node.users for node in inputs[: len(_NUMBERS)]):
            # It computes with its numbers, which are tensors here: another precision, and no branches.
            return None
        for node in recorded.graph.nodes:
            if node.op == "get_attr":
                constant = getattr(recorded, node.target)
                if constant.numel() > 1 and constant.data_ptr() not in self._constants:
                    # It read a tensor that is not an input and may be another one next time.
                    return None
        _simplify(recorded)
        try:
            with warnings.catch_warnings(), torch.no_grad():
                warnings.simplefilter("ignore")
                # TorchScript avoids Python between the operations.
                trace: Any = torch.jit.trace(recorded, (*_NUMBERS, *tensors), check_trace=False)  # type: ignore[no-untyped-call]
                return trace.forward  # type: ignore[no-any-return]
        except Exception:
            return recorded.forward


def _simplify(recorded: torch.fx.GraphModule) -> None:
    """Remove operations that change nothing."""
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

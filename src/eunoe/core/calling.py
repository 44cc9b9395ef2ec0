"""Calls a module with a batch as the module expects it, and finds the logits in what it returns."""

import inspect
from collections.abc import Callable
from typing import Any

from torch import Tensor, nn

from eunoe.core.fields import Fields, Input

Arguments = tuple[tuple[Any, ...], dict[str, Any]]


def takes_whole(function: Callable[..., Any], fields: Fields) -> bool:
    """Whether a function takes all fields as one tuple or dict, rather than one argument for each."""
    parameters = list(inspect.signature(function).parameters.values())
    by_position = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if fields.names is None:
        each = len(by_position) >= len(fields.values)
    else:
        known = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
        each = known.issuperset(fields.names)
    rest = inspect.Parameter.VAR_POSITIONAL if fields.names is None else inspect.Parameter.VAR_KEYWORD
    if each or any(p.kind is rest for p in parameters):
        return False
    return bool(by_position) and sum(p.default is p.empty for p in by_position) <= 1


def arguments(x: Input, whole: bool) -> Arguments:
    """The arguments to call a module with."""
    if isinstance(x, Tensor):
        return (x,), {}
    return ((x.whole(),), {}) if whole else x.arguments()


def call(module: nn.Module, x: Input) -> Any:
    """The logits of a batch."""
    args, named = arguments(x, isinstance(x, Fields) and takes_whole(module.forward, x))
    return logits_of(module(*args, **named))


def logits_of(output: Any) -> Any:
    """The logits in what a module returned: the tensor itself, or the attribute of this name."""
    return output if isinstance(output, Tensor) else getattr(output, "logits", output)

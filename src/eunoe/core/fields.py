"""Inputs of more than one tensor: named or numbered fields, of fixed or varying length.

Stored samples are a tensor, a `Ragged` field (all samples concatenated, with offsets) or `Fields` of these.
`gather` makes a batch, a tensor or `Fields` of tensors, and pads to the longest of its samples. Operations
are named as those of a tensor, so most code need not distinguish them. `call` passes a batch to a module.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.utils import _pytree


@dataclass(frozen=True, eq=False, repr=False)
class Ragged:
    """Samples of varying length: sample i is `values[offsets[i]:offsets[i + 1]]`."""

    values: Tensor
    offsets: Tensor
    # The value of a batch beyond the end of a sample.
    padding: float = 0

    @classmethod
    def of(cls, samples: Sequence[Tensor], padding: float = 0) -> "Ragged":
        """Concatenate samples that differ in their first dimension only."""
        lengths = torch.tensor([0, *(len(sample) for sample in samples)])
        return cls(torch.cat(list(samples)), lengths.cumsum(0), padding)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: Any) -> "Ragged":
        """Select samples by a slice, by numbers or by a mask."""
        chosen = torch.arange(len(self))[rows if isinstance(rows, slice) else torch.as_tensor(rows)]
        starts, lengths = self.offsets[chosen], self.lengths[chosen]
        offsets = torch.cat([lengths.new_zeros(1), lengths.cumsum(0)])
        places = torch.arange(int(offsets[-1])) + torch.repeat_interleave(starts - offsets[:-1], lengths)
        return Ragged(self.values[places], offsets, self.padding)

    @cached_property
    def lengths(self) -> Tensor:
        return self.offsets.diff()

    @cached_property
    def longest(self) -> int:
        """Return the length of the longest sample."""
        return int(self.lengths.max()) if len(self) else 0

    def pad(self, rows: Tensor) -> Tensor:
        """Return these samples padded to the longest of them."""
        lengths = self.lengths[rows]
        length = int(lengths.max()) if len(rows) else 0
        position = torch.arange(length)
        beyond = position >= lengths[:, None]
        indices = (self.offsets[rows][:, None] + position).masked_fill_(beyond, 0)
        batch = self.values[indices]
        return batch.masked_fill_(beyond.view(*beyond.shape, *[1] * (batch.ndim - 2)), self.padding)


class Fields:
    """The fields of samples, by name or by number; each has one entry per sample."""

    __slots__ = ("names", "values")

    def __init__(self, values: Sequence[Any], names: Sequence[str] | None = None) -> None:
        self.values: tuple[Any, ...] = tuple(values)
        self.names = None if names is None else tuple(names)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return the names of the fields, or their numbers."""
        return self.names or tuple(str(number) for number in range(len(self.values)))

    def map(self, change: Callable[[Any], Any]) -> "Fields":
        return Fields([change(value) for value in self.values], self.names)

    def _maps(self, change: Callable[[Any], Sequence[Any]]) -> "list[Fields]":
        parts = zip(*[change(value) for value in self.values], strict=True)
        return [Fields(values, self.names) for values in parts]

    def __len__(self) -> int:
        return len(self.values[0])

    def __getitem__(self, index: Any) -> "Fields":
        return self.map(lambda value: value[index])

    def __iter__(self) -> Iterator["Fields"]:
        return iter(self.unbind())

    def to(self, device: torch.device | str) -> "Fields":
        return self.map(lambda value: value.to(device))

    def split(self, sizes: int | list[int]) -> "list[Fields]":
        return self._maps(lambda value: torch.split(value, sizes))

    def unbind(self) -> "list[Fields]":
        return self._maps(torch.unbind)

    def unflatten(self, dimension: int, sizes: Sequence[int]) -> "Fields":
        return self.map(lambda value: value.unflatten(dimension, sizes))

    def whole(self) -> Any:
        """Return a tuple or dict of all fields."""
        return self.values if self.names is None else dict(zip(self.names, self.values, strict=True))


# vmap must see the tensors.
_pytree.register_pytree_node(
    Fields,
    lambda fields: (list(fields.values), fields.names),
    lambda values, names: Fields(list(values), names),
    serialized_type_name="eunoe.core.fields.Fields",
)

# A batch, and the stored samples that batches are gathered from.
Input: TypeAlias = Tensor | Fields
Stored: TypeAlias = Tensor | Ragged | Fields
# Positional and keyword arguments of a module.
Arguments: TypeAlias = tuple[tuple[Any, ...], dict[str, Any]]


def as_input(value: Any) -> Input:
    """Convert a tensor, or a tuple, list or dict of tensors, to a batch."""
    if isinstance(value, Tensor | Fields):
        return value
    return Fields(list(value.values()), list(value)) if isinstance(value, Mapping) else Fields(value)


def gather(stored: Stored, rows: Tensor) -> Input:
    """Return a batch of these samples, with fields of varying length padded to the longest in the batch."""
    if isinstance(stored, Tensor):
        # Samples may be on an accelerator, and rows are on the CPU.
        return stored.index_select(0, rows.to(stored.device))
    return stored.pad(rows) if isinstance(stored, Ragged) else stored.map(lambda field: gather(field, rows))


def split(x: Input, sizes: int | list[int]) -> Sequence[Input]:
    """Split a batch into parts of these sizes."""
    return torch.split(x, sizes) if isinstance(x, Tensor) else x.split(sizes)


def is_ragged(stored: Stored) -> bool:
    """Return whether samples vary in length."""
    return isinstance(stored, Ragged) or (isinstance(stored, Fields) and any(map(is_ragged, stored.values)))


def leaves(stored: Stored) -> list[Tensor]:
    """Return all tensors that samples are stored in."""
    if isinstance(stored, Tensor):
        return [stored]
    if isinstance(stored, Ragged):
        return [stored.values, stored.offsets]
    return [tensor for field in stored.values for tensor in leaves(field)]


def describe_input(stored: Stored) -> str:
    """Return type and shape of one sample as text; equal for samples that can be mixed."""
    if isinstance(stored, Tensor):
        return f"{_type(stored)} {list(stored.shape[1:])}"
    if isinstance(stored, Ragged):
        inner = "".join(f", {size}" for size in stored.values.shape[1:])
        padded = f" padded with {stored.padding:g}" if stored.padding else ""
        return f"{_type(stored.values)} [any{inner}]{padded}"
    fields = [describe_input(field) for field in stored.values]
    if stored.names is None:
        return f"({', '.join(fields)})"
    return "{" + ", ".join(f"{name}: {field}" for name, field in zip(stored.names, fields, strict=True)) + "}"


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def takes_whole(function: Callable[..., Any], fields: Fields) -> bool:
    """Return whether a function takes all fields as one tuple or dict instead of an argument each."""
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
    """Return positional and keyword arguments for a module."""
    if isinstance(x, Tensor):
        return (x,), {}
    fields = x.whole()
    if whole:
        return (fields,), {}
    return (fields, {}) if x.names is None else ((), fields)


def call(module: nn.Module, x: Input) -> Any:
    """Return the logits of a batch."""
    args, named = arguments(x, isinstance(x, Fields) and takes_whole(module.forward, x))
    return logits_of(module(*args, **named))


def logits_of(output: Any) -> Any:
    """Return the logits of a module's output: the tensor itself, or its attribute `logits`."""
    return output if isinstance(output, Tensor) else getattr(output, "logits", output)

"""Samples that are more than one tensor: named or numbered fields, of fixed or varying length.

What is stored is a tensor, a `Ragged` field (all samples one after the other, with offsets) or `Fields` of
these. A batch is made of stored samples by `gather`, which pads to the longest of its samples, and is a
tensor or `Fields` of tensors. The operations have the names of a tensor's, so that code that moves, cuts and
counts batches need not distinguish them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils import _pytree

from eunoe.core.batches import level


@dataclass(frozen=True, eq=False, repr=False)
class Ragged:
    """Samples of varying length: sample i is `values[offsets[i]:offsets[i + 1]]`."""

    values: Tensor
    offsets: Tensor
    # What a batch holds beyond the end of a sample.
    padding: float = 0

    @classmethod
    def of(cls, samples: Sequence[Tensor], padding: float = 0) -> "Ragged":
        """Put samples that differ in their first dimension only one after the other."""
        lengths = torch.tensor([0, *(len(sample) for sample in samples)])
        return cls(torch.cat(list(samples)), lengths.cumsum(0), padding)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, rows: Any) -> "Ragged":
        """The same for some of the samples: a slice, numbers or a mask."""
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
        """The length of the longest sample."""
        return int(self.lengths.max()) if len(self) else 0

    def padded(self, rows: Tensor, few_lengths: bool = False) -> Tensor:
        """These samples, padded to the longest of them; with `few_lengths`, to one of a few lengths."""
        lengths = self.lengths[rows]
        length = int(lengths.max()) if len(rows) else 0
        if few_lengths:
            length = level(length, self.longest)
        place = torch.arange(length)
        beyond = place >= lengths[:, None]
        places = (self.offsets[rows][:, None] + place).masked_fill_(beyond, 0)
        batch = self.values[places]
        return batch.masked_fill_(beyond.view(*beyond.shape, *[1] * (batch.ndim - 2)), self.padding)


class Fields:
    """The fields of samples, by name or by number; each has one entry per sample."""

    __slots__ = ("names", "values")

    def __init__(self, values: Sequence[Any], names: Sequence[str] | None = None) -> None:
        self.values: tuple[Any, ...] = tuple(values)
        self.names = None if names is None else tuple(names)

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the fields, or their numbers."""
        return self.names or tuple(str(number) for number in range(len(self.values)))

    def map(self, change: Callable[[Any], Any]) -> "Fields":
        return Fields([change(value) for value in self.values], self.names)

    def _maps(self, change: Callable[[Any], Sequence[Any]]) -> "list[Fields]":
        return [
            Fields(parts, self.names) for parts in zip(*[change(value) for value in self.values], strict=True)
        ]

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

    def numel(self) -> int:
        return sum(value.numel() for value in self.values)

    def arguments(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Positional and keyword arguments, one for each field."""
        return (self.values, {}) if self.names is None else ((), self.whole())

    def whole(self) -> Any:
        """A tuple or dict of all fields."""
        return self.values if self.names is None else dict(zip(self.names, self.values, strict=True))


# So that vmap sees the tensors.
_pytree.register_pytree_node(
    Fields,
    lambda fields: (list(fields.values), fields.names),
    lambda values, names: Fields(list(values), names),
    serialized_type_name="eunoe.core.fields.Fields",
)

# One input or a batch of them, and what batches are gathered from.
Input: TypeAlias = Tensor | Fields
Stored: TypeAlias = Tensor | Ragged | Fields


def as_input(value: Any) -> Input:
    """A batch from a tensor, or from a tuple, list or dict of tensors."""
    if isinstance(value, Tensor | Fields):
        return value
    if isinstance(value, Mapping):
        return Fields(list(value.values()), list(value))
    return Fields(value)


def gather(stored: Stored, rows: Tensor, few_lengths: bool = False) -> Input:
    """A batch of these samples, fields of varying length padded to the longest in the batch."""
    if isinstance(stored, Tensor):
        # Samples may be on an accelerator, and rows are on the CPU.
        return stored.index_select(0, rows.to(stored.device))
    if isinstance(stored, Ragged):
        return stored.padded(rows, few_lengths)
    return stored.map(lambda field: gather(field, rows, few_lengths))


def split(x: Input, sizes: int | list[int]) -> Sequence[Input]:
    """A batch cut into parts of these sizes."""
    return torch.split(x, sizes) if isinstance(x, Tensor) else x.split(sizes)


def is_ragged(stored: Stored) -> bool:
    """Whether samples vary in length."""
    return isinstance(stored, Ragged) or (isinstance(stored, Fields) and any(map(is_ragged, stored.values)))


def leaves(stored: Stored) -> list[Tensor]:
    """All tensors that samples are stored in."""
    if isinstance(stored, Tensor):
        return [stored]
    if isinstance(stored, Ragged):
        return [stored.values, stored.offsets]
    return [tensor for field in stored.values for tensor in leaves(field)]


def in_words(stored: Stored) -> str:
    """Type and shape of one sample; equal for samples that can be mixed."""
    if isinstance(stored, Tensor):
        return f"{_type(stored)} {list(stored.shape[1:])}"
    if isinstance(stored, Ragged):
        inner = "".join(f", {size}" for size in stored.values.shape[1:])
        padded = f" padded with {stored.padding:g}" if stored.padding else ""
        return f"{_type(stored.values)} [any{inner}]{padded}"
    fields = [in_words(field) for field in stored.values]
    if stored.names is None:
        return f"({', '.join(fields)})"
    return "{" + ", ".join(f"{name}: {field}" for name, field in zip(stored.names, fields, strict=True)) + "}"


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")

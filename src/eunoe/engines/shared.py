"""Vectors in memory that this process shares with the processes it forks.

Anonymous shared maps need no file and are not bound by the size of /dev/shm, which containers often
keep at 64 MB. They begin at a page, so vectors in them are aligned as torch aligns its own.
"""

import mmap
from collections.abc import Mapping

import torch
from torch import Tensor

_ALIGNMENT = 64


class SharedVectors:
    """Named vectors of fixed sizes and types in one shared map."""

    def __init__(self, like: Mapping[str, tuple[int, torch.dtype]]) -> None:
        places, end = {}, 0
        for name, (size, dtype) in like.items():
            places[name] = end
            end += -(-size * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        self._map = mmap.mmap(-1, max(end, 1))
        self.vectors = {
            name: torch.frombuffer(self._map, dtype=dtype, count=size, offset=places[name])
            if size
            else torch.empty(0, dtype=dtype)
            for name, (size, dtype) in like.items()
        }

    def write(self, values: Mapping[str, Tensor]) -> None:
        """Copy values in."""
        for name, value in values.items():
            self.vectors[name].copy_(value)

    def fits(self, values: Mapping[str, Tensor]) -> bool:
        """Whether these are the vectors that the map has room for."""
        return {k: v.shape for k, v in values.items()} == {k: v.shape for k, v in self.vectors.items()}

    def read(self) -> dict[str, Tensor]:
        """Copy all values out."""
        return {name: value.clone() for name, value in self.vectors.items()}


def shapes(values: Mapping[str, Tensor]) -> dict[str, tuple[int, torch.dtype]]:
    """Sizes and types of vectors."""
    return {name: (value.numel(), value.dtype) for name, value in values.items()}

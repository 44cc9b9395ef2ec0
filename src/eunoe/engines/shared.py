"""Vectors in memory that this process shares with the processes it forks.

Anonymous shared maps need no file and are not bound by the size of /dev/shm, which containers often
keep at 64 MB. They start at a memory page, so vectors in them are aligned as torch's own.
"""

import mmap
from collections.abc import Mapping

import torch
from torch import Tensor

from eunoe.core.flat_model import Vectors

# Vectors by group and name, and their sizes and types.
Groups = Mapping[str, Mapping[str, Tensor]]
Layout = dict[str, dict[str, tuple[int, torch.dtype]]]

_ALIGNMENT = 64


class SharedVectors:
    """Groups of named vectors of fixed sizes and types in one shared map."""

    def __init__(self, layout: Layout) -> None:
        places, end = [], 0
        for group in layout.values():
            for size, dtype in group.values():
                places.append(end)
                end += -(-size * dtype.itemsize // _ALIGNMENT) * _ALIGNMENT
        self._map = mmap.mmap(-1, max(end, 1))
        self.layout, place = layout, iter(places)
        self.groups: dict[str, Vectors] = {
            group: {name: self._at(next(place), *like) for name, like in names.items()}
            for group, names in layout.items()
        }

    def write(self, values: Groups) -> None:
        """Copy values in."""
        for group, vectors in values.items():
            for name, value in vectors.items():
                self.groups[group][name].copy_(value)

    def fits(self, values: Groups) -> bool:
        """Return whether these vectors have the layout of the map."""
        return _shapes(values) == _shapes(self.groups)

    def read(self) -> dict[str, Vectors]:
        """Copy all values out."""
        return {
            group: {name: value.clone() for name, value in vectors.items()}
            for group, vectors in self.groups.items()
        }

    def _at(self, place: int, size: int, dtype: torch.dtype) -> Tensor:
        if not size:
            return torch.empty(0, dtype=dtype)
        return torch.frombuffer(self._map, dtype=dtype, count=size, offset=place)


def layout_of(values: Groups) -> Layout:
    """Sizes and types of vectors."""
    return {
        group: {name: (value.numel(), value.dtype) for name, value in vectors.items()}
        for group, vectors in values.items()
    }


def _shapes(values: Groups) -> dict[str, dict[str, torch.Size]]:
    return {group: {name: v.shape for name, v in vectors.items()} for group, vectors in values.items()}

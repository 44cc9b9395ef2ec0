"""How the vectors of an update travel: whole, compressed, or only where they are not 0.

A vector that is compressed, or declared sparse, travels as its parts, named `vector/part`. Sparse uploads
that share their indices send these once. The bytes of all parts are those that a run's `bytes_up` counts.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch

from eunoe.config.options import Compression
from eunoe.core.compression import INDEX, part_sizes, restore_vector, scatter, support
from eunoe.core.flat_model import Vectors, Weights
from eunoe.engines.compression import CHANGE, compressed_uploads
from eunoe.server.aggregate import Upload
from eunoe.server.updates import Update

FLOATS = ("float32", "float64")


class Form(NamedTuple):
    """What a received vector must be: its size, and the names of the types that it may have."""

    size: int
    dtypes: tuple[str, ...]

    @classmethod
    def of(cls, size: int, dtype: torch.dtype) -> "Form":
        return cls(size, (str(dtype).removeprefix("torch."),))


def split_update(update: Update, declared: Mapping[str, Upload]) -> tuple[Vectors, Vectors]:
    """Return the parts in which an update's weights and its uploads travel."""
    weights, uploads = update.weights.vectors(), dict(update.uploads)
    for name, parts in update.packed.items():
        target, vector = (weights, "parameters") if name == CHANGE else (uploads, name)
        del target[vector]
        target |= {f"{vector}/{part}": value for part, value in parts.items()}
    for name, upload in declared.items():
        if upload.entries is None or upload.indices_of is not None:
            continue
        sharing = [name, *(other for other, its in declared.items() if its.indices_of == name)]
        indices = support([update.uploads[vector] for vector in sharing], upload.entries)
        uploads |= {f"{vector}/values": uploads.pop(vector)[indices.long()] for vector in sharing}
        uploads[f"{name}/indices"] = indices
    return weights, uploads


class Layout:
    """The parts that a client's reply must have, by name: `weights` and `uploads`."""

    def __init__(
        self, start: Weights, uploads: Mapping[str, Upload], compression: Compression | None = None
    ) -> None:
        self.start, self._declared = start, uploads
        self._compressed = compressed_uploads(compression, uploads, start.parameters.numel())
        self._compression = None if compression is not None and compression.sends_all else compression
        self.weights = {name: Form.of(v.numel(), v.dtype) for name, v in start.vectors().items()}
        if self._compression is not None:
            del self.weights["parameters"]
            self.weights |= self._compressed_forms("parameters", self._compression)
        self.uploads: dict[str, Form] = {}
        for name, upload in uploads.items():
            if self._compression is not None and name in self._compressed:
                self.uploads |= self._compressed_forms(name, self._compression)
            elif upload.entries is None:
                self.uploads[name] = Form(upload.size, FLOATS)
            else:
                self.uploads[f"{name}/values"] = Form(upload.entries, FLOATS)
                if upload.indices_of is None:
                    self.uploads[f"{name}/indices"] = Form.of(upload.entries, INDEX)

    def join_weights(self, parts: Vectors) -> Weights:
        """Return the weights from their parts."""
        if self._compression is None:
            return Weights.from_vectors(parts)
        parameters = restore_vector(self._compression, _parts_of(parts, "parameters"), self.start.parameters)
        return Weights.from_vectors({**parts, "parameters": parameters})

    def join_uploads(self, parts: Vectors) -> Vectors:
        """Return the uploads from their parts."""
        uploads: Vectors = {}
        for name, upload in self._declared.items():
            if self._compression is not None and name in self._compressed:
                zeros = torch.zeros(upload.size, dtype=self.start.parameters.dtype)
                uploads[name] = restore_vector(self._compression, _parts_of(parts, name), zeros)
            elif upload.entries is None:
                uploads[name] = parts[name]
            else:
                indices = parts[f"{upload.indices_of or name}/indices"]
                uploads[name] = scatter(indices, parts[f"{name}/values"], torch.zeros(upload.size))
        return uploads

    def _compressed_forms(self, name: str, compression: Compression) -> dict[str, Form]:
        sizes = part_sizes(compression, self.start.parameters.numel(), self.start.parameters.dtype)
        return {f"{name}/{part}": Form.of(*size) for part, size in sizes.items()}


def _parts_of(parts: Vectors, name: str) -> Vectors:
    start = f"{name}/"
    return {key.removeprefix(start): value for key, value in parts.items() if key.startswith(start)}

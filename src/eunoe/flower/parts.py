"""How the vectors of an update travel: whole, in a smaller form, or only where they are not 0.

A vector that is compressed, or declared sparse, travels as its parts, named `vector/part`. Sparse uploads
that share their indices send these once. The bytes of all parts are those that a run's `bytes_up` counts.
"""

from collections.abc import Mapping
from typing import NamedTuple

import torch

from eunoe.config.options import Compression
from eunoe.core.compression import INDEX, part_sizes, scattered, support, unpacked
from eunoe.core.flat_model import Vectors, Weights
from eunoe.engines.client import Update
from eunoe.engines.compression import CHANGE, compressed_uploads
from eunoe.server.aggregate import Upload

# Types that a number may have.
FLOATS = ("float32", "float64")


class Form(NamedTuple):
    """What a vector must be: its size, and the names of the types that it may have."""

    size: int
    dtypes: tuple[str, ...]


def form(size: int, dtype: torch.dtype) -> Form:
    """The form of vectors of this size and type."""
    return Form(size, (str(dtype).removeprefix("torch."),))


def parts_of(update: Update, declared: Mapping[str, Upload]) -> tuple[Vectors, Vectors]:
    """The parts in which an update's weights and its uploads travel."""
    weights, uploads = update.weights.vectors(), dict(update.uploads)
    if CHANGE in update.packed:
        del weights["parameters"]
        weights |= _named("parameters", update.packed[CHANGE])
    for name in update.packed.keys() - {CHANGE}:
        del uploads[name]
        uploads |= _named(name, update.packed[name])
    for name, upload in declared.items():
        if upload.entries is None or upload.indices_of is not None:
            continue
        together = [name, *(other for other, one in declared.items() if one.indices_of == name)]
        indices = support([update.uploads[one] for one in together], upload.entries)
        uploads |= {f"{one}/values": uploads.pop(one)[indices.long()] for one in together}
        uploads[f"{name}/indices"] = indices
    return weights, uploads


def _named(name: str, parts: Vectors) -> Vectors:
    return {f"{name}/{part}": value for part, value in parts.items()}


class Parts:
    """The parts that a client's reply must have, and what they say."""

    def __init__(
        self, start: Weights, uploads: Mapping[str, Upload], compression: Compression | None = None
    ) -> None:
        self.start, self.uploads = start, uploads
        self.compression = None if compression is not None and compression.sends_all else compression
        self._smaller = compressed_uploads(compression, uploads, start.parameters.numel())

    def weights(self) -> dict[str, Form]:
        """The forms of the weights' parts."""
        forms = {name: form(v.numel(), v.dtype) for name, v in self.start.vectors().items()}
        if self.compression is not None:
            del forms["parameters"]
            forms |= self._forms("parameters", self.compression)
        return forms

    def others(self) -> dict[str, Form]:
        """The forms of the uploads' parts."""
        forms: dict[str, Form] = {}
        for name, upload in self.uploads.items():
            if self.compression is not None and name in self._smaller:
                forms |= self._forms(name, self.compression)
            elif upload.entries is None:
                forms[name] = Form(upload.size, FLOATS)
            else:
                forms[f"{name}/values"] = Form(upload.entries, FLOATS)
                if upload.indices_of is None:
                    forms[f"{name}/indices"] = form(upload.entries, INDEX)
        return forms

    def read_weights(self, vectors: Vectors) -> Weights:
        """The weights that these parts say."""
        if self.compression is None:
            return Weights.from_vectors(vectors)
        found = unpacked(self.compression, _parts(vectors, "parameters"), self.start.parameters)
        return Weights.from_vectors({**vectors, "parameters": found})

    def read_others(self, vectors: Vectors) -> Vectors:
        """The uploads that these parts say."""
        found: Vectors = {}
        for name, upload in self.uploads.items():
            if self.compression is not None and name in self._smaller:
                zeros = torch.zeros(upload.size, dtype=self.start.parameters.dtype)
                found[name] = unpacked(self.compression, _parts(vectors, name), zeros)
            elif upload.entries is None:
                found[name] = vectors[name]
            else:
                indices = vectors[f"{upload.indices_of or name}/indices"]
                found[name] = scattered(indices, vectors[f"{name}/values"], torch.zeros(upload.size))
        return found

    def _forms(self, name: str, compression: Compression) -> dict[str, Form]:
        sizes = part_sizes(compression, self.start.parameters.numel(), self.start.parameters.dtype)
        return {f"{name}/{part}": form(*size) for part, size in sizes.items()}


def _parts(vectors: Vectors, name: str) -> Vectors:
    start = f"{name}/"
    return {key.removeprefix(start): value for key, value in vectors.items() if key.startswith(start)}

"""Smaller updates: what a client sends of its change, and what it keeps for its next participation.

Compressed are the change of the weights and those of a method's uploads that are sums as long as the model
and of any range; buffers and small uploads travel as they are. With x the change (or the upload) and e what
is left from earlier participations, the client sends c = compress(x + e) and, with feedback, keeps
e = x + e - c (Seide et al., 2014, https://doi.org/10.21437/Interspeech.2014-274; Karimireddy et al., 2019,
https://arxiv.org/abs/1901.09847). What is kept becomes current only if the server accepts the update.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from eunoe.config.options import Compression
from eunoe.core.compression import compress_vector, part_bytes, restore_vector
from eunoe.core.flat_model import Vectors
from eunoe.methods.context import RoundContext
from eunoe.server.aggregate import Upload

# The name of the change of the parameters among the compressed vectors.
CHANGE = "change"
# The names of a client's own vectors that hold what was not sent.
_LEFT = "not sent of "


def compressed_uploads(
    compression: Compression | None, uploads: Mapping[str, Upload], parameters: int
) -> list[str]:
    """Which uploads are compressed."""
    if compression is None or compression.sends_all:
        return []
    return [
        name
        for name, upload in uploads.items()
        if upload.combine in ("sum", "uniform", "samples")
        and upload.size == parameters
        and upload.entries is None
        and upload.lowest is None
        and upload.highest is None
        and not upload.whole
    ]


def without_left(state: Mapping[str, Tensor]) -> Vectors:
    """A client's state as its method knows it."""
    return {name: value for name, value in state.items() if not name.startswith(_LEFT)}


class Sent(NamedTuple):
    """What the server will read of a client's vectors, their smaller forms, and what is left over."""

    parameters: Tensor
    uploads: Vectors
    packed: dict[str, Vectors]
    left: Vectors


def compressed(
    compression: Compression,
    parameters: Tensor,
    start: Tensor,
    uploads: Mapping[str, Tensor],
    names: Sequence[str],
    state: Mapping[str, Tensor],
    rng: np.random.Generator,
) -> Sent:
    """Compress the change of the parameters from the start, and the uploads of these names."""
    found = dict(uploads)
    if compression.sends_all:
        return Sent(parameters, found, {}, {})
    parts, left = dict[str, Vectors](), Vectors()
    pairs = {CHANGE: (parameters, start)}
    pairs |= {name: (found[name], torch.zeros_like(found[name])) for name in names if name in found}
    for name, (value, reference) in pairs.items():
        move = value.double() - reference.double()
        if (before := state.get(_LEFT + name)) is not None:
            move += before.cpu().double()
        parts[name] = compress_vector(compression, move, reference, rng)
        found[name] = restore_vector(compression, parts[name], reference)
        if compression.feedback:
            rest = move - (found[name].double() - reference.double())
            left[_LEFT + name] = rest.to(reference.dtype)
    return Sent(found.pop(CHANGE), found, parts, left)


def upload_bytes(
    compression: Compression | None, uploads: Mapping[str, Upload], context: RoundContext
) -> int:
    """The bytes that a client sends besides its buffers: its parameters and its method's uploads."""
    smaller = compressed_uploads(compression, uploads, context.parameters)
    sizes = {name: upload.bytes_in(context.dtype) for name, upload in uploads.items()}
    sizes[CHANGE] = context.parameters * context.dtype.itemsize
    if compression is not None and not compression.sends_all:
        each = part_bytes(compression, context.parameters, context.dtype)
        sizes |= dict.fromkeys([CHANGE, *smaller], each)
    return sum(sizes.values())

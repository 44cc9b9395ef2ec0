"""Compression: what a client sends of its change, and what it keeps for its next participation.

Compressed are the change of the weights and those of a method's uploads that are sums as long as the model
and of any range; buffers and small uploads are sent as they are. With x the change (or the upload) and e the
residual of earlier participations, the client sends c = compress(x + e) and, with feedback, keeps
e = x + e - c (Seide et al., 2014, https://doi.org/10.21437/Interspeech.2014-274; Karimireddy et al., 2019,
https://arxiv.org/abs/1901.09847). A residual becomes current only if the server accepts the update.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from eunoe.config.options import Compression
from eunoe.core.compression import compress_vector, part_bytes, restore_vector
from eunoe.core.flat_model import Vectors
from eunoe.methods.context import RoundContext
from eunoe.server.aggregate import Upload
from eunoe.server.updates import Update

# The name of the change of the parameters among the compressed vectors.
CHANGE = "change"
# Prefix of the names of residuals in a client's state.
_RESIDUAL = "not sent of "


def compressed_uploads(
    compression: Compression | None, uploads: Mapping[str, Upload], parameters: int
) -> list[str]:
    """Return the names of the uploads that are compressed."""
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


def compress(
    compression: Compression,
    update: Update,
    start: Tensor,
    names: Sequence[str],
    state: Mapping[str, Tensor],
    rng: np.random.Generator,
) -> tuple[Update, Vectors]:
    """Compress the change of the parameters from the start, and the uploads of these names.

    Return the update as the server will read it, with the compressed forms, and the residuals.
    """
    if compression.sends_all:
        return update, {}
    uploads, parts, residuals = dict(update.uploads), dict[str, Vectors](), Vectors()
    pairs = {CHANGE: (update.weights.parameters, start)}
    pairs |= {name: (uploads[name], torch.zeros_like(uploads[name])) for name in names if name in uploads}
    for name, (value, reference) in pairs.items():
        move = value.double() - reference.double()
        if (before := state.get(_RESIDUAL + name)) is not None:
            move += before.cpu().double()
        parts[name] = compress_vector(compression, move, reference, rng)
        uploads[name] = restore_vector(compression, parts[name], reference)
        if compression.feedback:
            rest = move - (uploads[name].double() - reference.double())
            residuals[_RESIDUAL + name] = rest.to(reference.dtype)
    weights = replace(update.weights, parameters=uploads.pop(CHANGE))
    return replace(update, weights=weights, uploads=uploads, packed=parts), residuals


def upload_bytes(
    compression: Compression | None, uploads: Mapping[str, Upload], context: RoundContext
) -> int:
    """Return the bytes that a client sends besides its buffers: its parameters and its method's uploads."""
    smaller = compressed_uploads(compression, uploads, context.model.parameters)
    sizes = {name: upload.bytes_in(context.model.dtype) for name, upload in uploads.items()}
    sizes[CHANGE] = context.model.parameters * context.model.dtype.itemsize
    if compression is not None and not compression.sends_all:
        each = part_bytes(compression, context.model.parameters, context.model.dtype)
        sizes |= dict.fromkeys([CHANGE, *smaller], each)
    return sum(sizes.values())

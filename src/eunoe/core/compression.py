"""Compression of a vector as its change from a reference that both sides have.

    topk      the k = ceil(share * n) entries with the largest change, as indices and new values
    quantize  with m the largest change and L = 2^(bits - 1) - 1, each change x is rounded at random to an
              integer next to L x / m, so that the mean is L x / m (QSGD, Alistarh et al., 2017,
              https://arxiv.org/abs/1610.02132, with one scale per vector)

Input from another party is validated here: a ValueError states the problem.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from eunoe.config.options import Compression
from eunoe.core.flat_model import Vectors

INDEX = torch.int32


def part_sizes(compression: Compression, size: int, dtype: torch.dtype) -> dict[str, tuple[int, torch.dtype]]:
    """Return size and type of each part of a compressed vector."""
    if compression.bits is not None:
        return {"codes": (-(-size * compression.bits // 8), torch.uint8), "scale": (1, torch.float64)}
    entries = math.ceil((compression.share or 1.0) * size)
    return {"indices": (entries, INDEX), "values": (entries, dtype)}


def part_bytes(compression: Compression, size: int, dtype: torch.dtype) -> int:
    """Return the bytes of a compressed vector."""
    return sum(count * kind.itemsize for count, kind in part_sizes(compression, size, dtype).values())


def compress_vector(
    compression: Compression, move: Tensor, reference: Tensor, rng: np.random.Generator
) -> Vectors:
    """Compress a vector that differs from the reference by `move` (float64)."""
    if compression.bits is not None:
        return _quantize(move, compression.bits, rng)
    entries = part_sizes(compression, move.numel(), reference.dtype)["indices"][0]
    indices = torch.topk(move.abs(), entries, sorted=False).indices.sort().values
    values = (reference[indices].double() + move[indices]).to(reference.dtype)
    return {"indices": indices.to(INDEX), "values": values}


def restore_vector(compression: Compression, parts: Vectors, reference: Tensor) -> Tensor:
    """Restore a vector from its compressed parts and the reference."""
    if compression.bits is None:
        return scatter(parts["indices"], parts["values"], reference)
    most, scale = 2 ** (compression.bits - 1) - 1, float(parts["scale"])
    # Bytes hold codes from the lowest bits on.
    shifts = torch.arange(8 // compression.bits) * compression.bits
    codes = (parts["codes"].long()[:, None] >> shifts) & (2**compression.bits - 1)
    codes = codes.flatten()[: reference.numel()]
    if int(codes.max()) > 2 * most:
        raise ValueError(f"a code is {int(codes.max())}, above {2 * most}")
    move = (codes.to(torch.float64) - most) * (scale / most)
    return (reference.double() + move).to(reference.dtype)


def _quantize(move: Tensor, bits: int, rng: np.random.Generator) -> Vectors:
    most, scale = 2 ** (bits - 1) - 1, float(move.abs().max())
    steps = torch.zeros_like(move)
    # The scale of a vector that is not finite is not finite either, and the server rejects the update.
    if math.isfinite(scale) and scale > 0:
        exact = move / scale * most
        steps = (exact + torch.from_numpy(rng.random(len(move)))).floor().clamp(-most, most)
    codes = (steps + most).to(torch.uint8)
    per_byte = 8 // bits
    codes = torch.cat([codes, codes.new_zeros(-len(codes) % per_byte)]).view(-1, per_byte)
    shifts = torch.arange(per_byte) * bits
    packed = (codes.to(torch.int64) << shifts).sum(1).to(torch.uint8)
    return {"codes": packed, "scale": torch.tensor([scale], dtype=torch.float64)}


def support(vectors: Sequence[Tensor], entries: int) -> Tensor:
    """Return `entries` indices that include every nonzero entry of the vectors."""
    moved = torch.stack([value != 0 for value in vectors]).any(0)
    nonzero = moved.nonzero().flatten()
    if len(nonzero) > entries:
        raise ValueError(f"{len(nonzero)} values are not 0, more than the {entries} declared")
    others = (~moved).nonzero().flatten()[: entries - len(nonzero)]
    return torch.cat([nonzero, others]).sort().values.to(INDEX)


def scatter(indices: Tensor, values: Tensor, reference: Tensor) -> Tensor:
    """Return the reference with these values at these indices, which must be increasing."""
    where = indices.long()
    if len(where) and not (int(where[0]) >= 0 and int(where[-1]) < reference.numel()):
        raise ValueError(f"an index is outside 0 to {reference.numel() - 1}")
    if bool((where.diff() <= 0).any()):
        raise ValueError("the indices are not increasing")
    result = reference.to(values.dtype, copy=True)
    result[where] = values
    return result

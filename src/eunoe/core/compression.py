"""Smaller forms of a vector that moves from a reference that both sides know, and back.

    topk      the k = ceil(share * n) entries that move most, as indices and new values
    quantize  with m the largest move and L = 2^(bits - 1) - 1, each move x as one of the whole numbers
              next to L x / m, drawn so that its mean is L x / m (QSGD, Alistarh et al., 2017,
              https://arxiv.org/abs/1610.02132, with one scale per vector)

A sparse form holds a few entries of vectors that are 0 elsewhere. What comes from another party is checked
here: a ValueError says what is wrong.
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
    """The parts of a vector's smaller form: their sizes and types."""
    if compression.bits is not None:
        return {"codes": (-(-size * compression.bits // 8), torch.uint8), "scale": (1, torch.float64)}
    entries = math.ceil((compression.share or 1.0) * size)
    return {"indices": (entries, INDEX), "values": (entries, dtype)}


def part_bytes(compression: Compression, size: int, dtype: torch.dtype) -> int:
    """The bytes of a vector's smaller form."""
    return sum(count * kind.itemsize for count, kind in part_sizes(compression, size, dtype).values())


def packed(compression: Compression, move: Tensor, reference: Tensor, rng: np.random.Generator) -> Vectors:
    """The smaller form of a reference that moved by so much (float64)."""
    if compression.bits is not None:
        return _quantized(move, compression.bits, rng)
    entries = part_sizes(compression, move.numel(), reference.dtype)["indices"][0]
    indices = torch.topk(move.abs(), entries, sorted=False).indices.sort().values
    values = (reference[indices].double() + move[indices]).to(reference.dtype)
    return {"indices": indices.to(INDEX), "values": values}


def unpacked(compression: Compression, parts: Vectors, reference: Tensor) -> Tensor:
    """The moved reference, as well as its smaller form tells."""
    if compression.bits is None:
        return scattered(parts["indices"], parts["values"], reference)
    most, scale = 2 ** (compression.bits - 1) - 1, float(parts["scale"])
    codes = _codes(parts["codes"], compression.bits)[: reference.numel()]
    if int(codes.max()) > 2 * most:
        raise ValueError(f"a code is {int(codes.max())}, above {2 * most}")
    move = (codes.to(torch.float64) - most) * (scale / most)
    moved: Tensor = (reference.double() + move).to(reference.dtype)
    return moved


def _quantized(move: Tensor, bits: int, rng: np.random.Generator) -> Vectors:
    most, scale = 2 ** (bits - 1) - 1, float(move.abs().max())
    steps = torch.zeros_like(move)
    # A move that is not finite makes the scale so too, and the server will refuse what comes of it.
    if math.isfinite(scale) and scale > 0:
        exact = move / scale * most
        steps = (exact + torch.from_numpy(rng.random(len(move)))).floor().clamp(-most, most)
    codes = (steps + most).to(torch.uint8)
    per_byte = 8 // bits
    codes = torch.cat([codes, codes.new_zeros(-len(codes) % per_byte)]).view(-1, per_byte)
    shifts = torch.arange(per_byte) * bits
    together = (codes.to(torch.int64) << shifts).sum(1).to(torch.uint8)
    return {"codes": together, "scale": torch.tensor([scale], dtype=torch.float64)}


def _codes(together: Tensor, bits: int) -> Tensor:
    """The numbers that stand in bytes, lowest bits first."""
    shifts = torch.arange(8 // bits) * bits
    codes: Tensor = (together.to(torch.int64)[:, None] >> shifts) & (2**bits - 1)
    return codes.flatten()


def support(vectors: Sequence[Tensor], entries: int) -> Tensor:
    """The indices of just so many entries, among them all at which one of the vectors is not 0."""
    moved = torch.stack([value != 0 for value in vectors]).any(0)
    found = moved.nonzero().flatten()
    if len(found) > entries:
        raise ValueError(f"{len(found)} values are not 0, more than the {entries} that are declared")
    others = (~moved).nonzero().flatten()[: entries - len(found)]
    return torch.cat([found, others]).sort().values.to(INDEX)


def scattered(indices: Tensor, values: Tensor, reference: Tensor) -> Tensor:
    """The reference with these values at these indices, which must rise."""
    where = indices.long()
    if len(where) and not (int(where[0]) >= 0 and int(where[-1]) < reference.numel()):
        raise ValueError(f"an index is outside 0 to {reference.numel() - 1}")
    if bool((where.diff() <= 0).any()):
        raise ValueError("the indices do not rise")
    found = reference.to(values.dtype, copy=True)
    found[where] = values
    return found

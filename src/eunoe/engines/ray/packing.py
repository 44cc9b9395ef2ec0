"""Values as a few bytes with their arrays beside them, so that a store can share the arrays unread.

Torch's own pickle copies tensors into the bytes; here the memory of tensors and arrays stays beside
them. What is unpacked lies at multiples of 64 bytes, as torch's own memory does: kernels may add up in
another order elsewhere, and give other bits.
"""

import io
import pickle
import warnings
from collections import ChainMap
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Bytes = NDArray[np.uint8]
Packed = tuple[bytes, list[Bytes]]

_ALIGNMENT = 64


def packed(value: Any) -> Packed:
    """A value whose classes the other side can import, or that Ray's pickle can send as they are."""
    from ray.cloudpickle import CloudPickler

    file, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    # A pickler looks at this table of its class when it is made, and not again.
    table = ChainMap({Tensor: _reduce}, CloudPickler.dispatch_table)
    pickler = type("Pickler", (CloudPickler,), {"dispatch_table": table})
    pickler(file, protocol=5, buffer_callback=buffers.append).dump(value)
    return file.getvalue(), [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]


def unpacked(parts: Packed, copy: bool = True) -> Any:
    """The value. Without a copy its arrays stay where they are, which must not be written to."""
    data, buffers = parts
    return pickle.loads(data, buffers=[_aligned(buffer, copy) for buffer in buffers])


def _aligned(buffer: Bytes, copy: bool) -> Bytes:
    with warnings.catch_warnings():
        # A store gives memory that is not to be written to, of which torch warns.
        warnings.simplefilter("ignore", UserWarning)
        tensor = torch.from_numpy(buffer)
    result: Bytes = (tensor.clone() if copy or tensor.data_ptr() % _ALIGNMENT else tensor).numpy()
    return result


def _reduce(tensor: Tensor) -> Any:
    try:
        return torch.from_numpy, (tensor.numpy(),)
    except (
        RuntimeError,
        TypeError,
    ):
        # Not in the CPU's memory, part of a graph, or of a type of torch's own.
        return tensor.__reduce_ex__(5)  # type: ignore[no-untyped-call]

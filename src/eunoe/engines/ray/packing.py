"""Serialization with out-of-band arrays, so that an object store can share them without a copy.

Torch's own pickling copies tensors into the bytes; here the memory of tensors and arrays is kept apart.
Unpacked arrays are aligned to 64 bytes, as torch's own memory: with another alignment kernels may sum in
another order and give other bits.
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


def pack(value: Any) -> Packed:
    """Pack a value; classes that the other side cannot import are pickled by value."""
    from ray.cloudpickle import CloudPickler

    file, buffers = io.BytesIO(), list[pickle.PickleBuffer]()
    # A pickler reads its class's dispatch table once, on construction.
    table = ChainMap({Tensor: _reduce}, CloudPickler.dispatch_table)
    pickler = type("Pickler", (CloudPickler,), {"dispatch_table": table})
    pickler(file, protocol=5, buffer_callback=buffers.append).dump(value)
    return file.getvalue(), [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers]


def unpack(parts: Packed, copy: bool = True) -> Any:
    """Unpack a value. Without `copy` its arrays share the store's memory, which must not be written to."""
    data, buffers = parts
    return pickle.loads(data, buffers=[_aligned(buffer, copy) for buffer in buffers])


def _aligned(buffer: Bytes, copy: bool) -> Bytes:
    with warnings.catch_warnings():
        # The store's memory is read-only, of which torch warns.
        warnings.simplefilter("ignore", UserWarning)
        tensor = torch.from_numpy(buffer)
    result: Bytes = (tensor.clone() if copy or tensor.data_ptr() % _ALIGNMENT else tensor).numpy()
    return result


def _reduce(tensor: Tensor) -> Any:
    try:
        return torch.from_numpy, (tensor.numpy(),)
    except (RuntimeError, TypeError):
        # Not on the CPU, part of a graph, or a tensor subclass.
        return tensor.__reduce_ex__(5)  # type: ignore[no-untyped-call]

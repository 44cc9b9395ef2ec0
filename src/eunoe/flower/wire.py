"""Messages between server and clients as Flower records: named vectors and a few numbers.

Everything received from another party is checked before it is used, and nothing is unpickled. The names of
records and their values are the wire format: nodes and servers of different versions must agree on them.

A vector that is compressed, or declared sparse, travels as its parts, named `vector/part`. Sparse uploads
that share their indices send these once. The bytes of all parts are those that a run's `bytes_up` counts.
"""

from collections.abc import Mapping
from io import BytesIO
from typing import Any, NamedTuple

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from torch import Tensor

from eunoe.config.options import Compression
from eunoe.core.compression import INDEX, part_sizes, restore_vector, scatter, support
from eunoe.core.flat_model import Vectors, Weights
from eunoe.engines.client import SKIPPED
from eunoe.engines.compression import CHANGE, compressed_uploads
from eunoe.engines.private import PrivatePart
from eunoe.server.aggregate import Upload
from eunoe.server.updates import Broadcast, Update

# Characters of another party's text that are shown.
MAX_TEXT = 500
# Samples of a client; sums over clients stay far from the largest integer.
MAX_SAMPLES = 10**9
# In the error of a client that cannot load the state that the server names.
NO_STATE = "has no state of round"
# Bytes in which the header of a vector in NumPy's format must fit.
_HEADER = 4096
FLOATS = ("float32", "float64")


class Form(NamedTuple):
    """What a received vector must be: its size, and the names of the types that it may have."""

    size: int
    dtypes: tuple[str, ...]

    @classmethod
    def of(cls, size: int, dtype: torch.dtype) -> "Form":
        return cls(size, (str(dtype).removeprefix("torch."),))


class Order(NamedTuple):
    """What a client is told to train: the run, the round of the state it starts from, and the broadcast."""

    run: str
    start: int | None
    broadcast: Broadcast


def encode_vectors(vectors: Mapping[str, Tensor]) -> ArrayRecord:
    """Encode named vectors as a record."""
    return ArrayRecord({name: Array(value.detach().cpu().numpy()) for name, value in vectors.items()})


def decode_vectors(record: ArrayRecord) -> dict[str, Tensor]:
    """Decode a record's vectors, each in memory aligned by torch."""
    return {name: torch.from_numpy(array.numpy()).clone() for name, array in record.items()}


def decode_declared(record: ArrayRecord, declared: Mapping[str, Form]) -> dict[str, Tensor]:
    """Decode a record's vectors, all checked before one is copied; ValueError if they are not as declared."""
    if set(record) != set(declared):
        names = ", ".join(sorted(record)[:10]) or "none"
        raise ValueError(f"it has the vectors {names}, not {', '.join(sorted(declared)) or 'none'}")
    for name, form in declared.items():
        array, expected = record[name], f"{' or '.join(form.dtypes)} [{form.size}]"
        if array.dtype not in form.dtypes or array.shape != (form.size,):
            raise ValueError(f"{name} is {array.dtype} {list(array.shape)[:5]}, not {expected}")
        if len(array.data) > form.size * np.dtype(array.dtype).itemsize + _HEADER:
            raise ValueError(f"{name} has {len(array.data)} bytes, too many for {expected}")
    return {name: _decode_vector(name, record[name], form.size) for name, form in declared.items()}


def _decode_vector(name: str, array: Array, size: int) -> Tensor:
    """Decode a vector in NumPy's format, whose own header must agree with Flower's record."""
    head = BytesIO(array.data[:_HEADER])
    if array.stype != "numpy.ndarray" or np.lib.format.read_magic(head) != (1, 0):
        raise ValueError(f"{name} is not in NumPy's format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(head)
    length = len(array.data) - head.tell()
    if dtype != np.dtype(array.dtype) or shape != (size,) or length != size * dtype.itemsize:
        raise ValueError(f"{name} is {dtype} {list(shape)[:5]} in {length} bytes")
    vector = torch.empty(size, dtype=getattr(torch, array.dtype))
    vector.numpy()[:] = np.frombuffer(array.data, dtype, offset=head.tell())
    return vector


def encode_broadcast(broadcast: Broadcast) -> dict[str, ArrayRecord]:
    """Encode the part of a round's message that is the same for every client."""
    return {
        "weights": encode_vectors(broadcast.weights.vectors()),
        "shared": encode_vectors(broadcast.shared),
    }


def encode_order(run: str, round: int, start: int | None) -> ConfigRecord:
    """Encode the part of a round's message that is for one client."""
    return ConfigRecord({"run": run, "round": round, "start": -1 if start is None else start})


def is_run_name(name: object) -> bool:
    """Return whether this may be the unique name of a run."""
    return isinstance(name, str) and name.isalnum() and len(name) <= 64


def decode_order(content: RecordDict) -> Order:
    """Decode a round's message to a client."""
    order = content.config_records["order"]
    run, round, start = str(order["run"]), int(str(order["round"])), int(str(order["start"]))
    # The run becomes the name of a folder on the client's disk.
    if not is_run_name(run) or round < 1:
        raise ValueError(f"the server's order has run {one_line(run)!r} and round {round}")
    weights, shared = (decode_vectors(content.array_records[name]) for name in ("weights", "shared"))
    broadcast = Broadcast(round, Weights.from_vectors(weights), shared)
    return Order(run, None if start < 0 else start, broadcast)


def split_update(
    update: Update, declared: Mapping[str, Upload], private: PrivatePart | None = None
) -> tuple[Vectors, Vectors]:
    """Return the parts in which an update's weights and its uploads travel."""
    weights, uploads = update.weights.vectors(), dict(update.uploads)
    if private is not None:
        weights = {name: private.pack(name, value) for name, value in weights.items()}
        dense = {name for name, upload in declared.items() if upload.entries is None}
        uploads |= {name: private.pack(name, uploads[name]) for name in dense}
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
        self,
        start: Weights,
        uploads: Mapping[str, Upload],
        compression: Compression | None = None,
        private: PrivatePart | None = None,
    ) -> None:
        self.start, self._declared, self._private = start, uploads, private
        self._compressed = compressed_uploads(compression, uploads, start.parameters.numel())
        self._compression = None if compression is not None and compression.sends_all else compression
        self.weights = {key: Form.of(self._size(key, len(v)), v.dtype) for key, v in start.vectors().items()}
        if self._compression is not None:
            del self.weights["parameters"]
            self.weights |= self._compressed_forms("parameters", self._compression)
        self.uploads: dict[str, Form] = {}
        for name, upload in uploads.items():
            if self._compression is not None and name in self._compressed:
                self.uploads |= self._compressed_forms(name, self._compression)
            elif upload.entries is None:
                self.uploads[name] = Form(self._size(name, upload.size), FLOATS)
            else:
                self.uploads[f"{name}/values"] = Form(upload.entries, FLOATS)
                if upload.indices_of is None:
                    self.uploads[f"{name}/indices"] = Form.of(upload.entries, INDEX)

    def join_weights(self, parts: Vectors) -> Weights:
        """Return the weights from their parts."""
        if self._private is not None:
            starts = self.start.vectors()
            return Weights(**{name: self._private.unpack(name, parts[name], v) for name, v in starts.items()})
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
            elif upload.entries is None and self._private is not None:
                zeros = torch.zeros(upload.size, dtype=parts[name].dtype)
                uploads[name] = self._private.unpack(name, parts[name], zeros)
            elif upload.entries is None:
                uploads[name] = parts[name]
            else:
                indices = parts[f"{upload.indices_of or name}/indices"]
                uploads[name] = scatter(indices, parts[f"{name}/values"], torch.zeros(upload.size))
        return uploads

    def _size(self, name: str, size: int) -> int:
        return size if self._private is None else self._private.packed_size(name, size)

    def _compressed_forms(self, name: str, compression: Compression) -> dict[str, Form]:
        sizes = part_sizes(compression, self.start.parameters.numel(), self.start.parameters.dtype)
        return {f"{name}/{part}": Form.of(*size) for part, size in sizes.items()}


def _parts_of(parts: Vectors, name: str) -> Vectors:
    start = f"{name}/"
    return {key.removeprefix(start): value for key, value in parts.items() if key.startswith(start)}


def encode_update(
    update: Update,
    keeps_state: bool,
    uploads: Mapping[str, Upload] | None = None,
    private: PrivatePart | None = None,
) -> RecordDict:
    """Encode a client's reply; a skipped client reports only that."""
    if update.skipped is not None:
        return RecordDict({"skipped": ConfigRecord()})
    numbers = {name: getattr(update, name) for name in _NUMBERS} | {"keeps_state": int(keeps_state)}
    weights, others = split_update(update, uploads or {}, private)
    vectors = {"weights": encode_vectors(weights), "uploads": encode_vectors(others)}
    return RecordDict({**vectors, "numbers": MetricRecord(dict(numbers))})


def decode_update(content: RecordDict, client: int, layout: Layout) -> tuple[Update, bool]:
    """Decode a client's update and whether it keeps a state; an invalid reply becomes a missing update."""
    if "skipped" in content.config_records:
        # Its loss learns nothing from its data.
        return missing_update(client, layout.start, SKIPPED), False
    try:
        if set(content) != {"weights", "uploads", "numbers"}:
            raise ValueError(f"it has the records {', '.join(sorted(map(str, content))[:10])}")
        weights = layout.join_weights(decode_declared(content.array_records["weights"], layout.weights))
        uploads = layout.join_uploads(decode_declared(content.array_records["uploads"], layout.uploads))
        numbers = content.metric_records["numbers"]
        read: Any = {name: check(numbers, name) for name, check in _NUMBERS.items()}
        update = Update(client=client, weights=weights, uploads=uploads, **read)
        return update, bool(_count(numbers, "keeps_state"))
    except Exception as error:  # Another party's bytes may fail to parse in any way.
        return missing_update(client, layout.start, one_line(f"its reply cannot be read: {error}")), False


def one_line(text: str | None) -> str:
    """Make another party's text safe for logs and terminals: printable, one line, of bounded length."""
    line = "".join(letter if letter.isprintable() else " " for letter in text or "no reason given")
    return line if len(line) <= MAX_TEXT else f"{line[:MAX_TEXT]} ..."


def missing_update(client: int, start: Weights, reason: str) -> Update:
    """Return the update of a client that sent none."""
    return Update(client, 0, start, {}, skipped=reason)


def _number(record: MetricRecord, name: str) -> float:
    value = record[name]
    if not isinstance(value, int | float):
        raise ValueError(f"{name} is not a number")
    return float(value)


def _count(record: MetricRecord, name: str) -> int:
    value = record[name]
    if not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} is not a count")
    return value


# The numbers of a client's reply, with the check of each.
_NUMBERS = {
    "size": _count,
    "steps": _count,
    "loss_before": _number,
    "loss_after": _number,
    "forwards": _count,
    "backwards": _count,
}

"""Messages between server and clients as Flower records: named vectors and a few numbers.

Everything received from another party is checked before it is used, and nothing is unpickled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from io import BytesIO

import numpy as np
import torch
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from torch import Tensor

from eunoe.core.flat_model import Weights
from eunoe.engines.client import SKIPPED, Broadcast, Update
from eunoe.flower.parts import Form as Form
from eunoe.flower.parts import Parts, parts_of
from eunoe.server.aggregate import Upload

# Characters of another party's text that are shown.
LONGEST = 500
# In the error of a client that cannot load the state that the server names.
NO_STATE = "has no state of round"
# Bytes in which the header of a vector in NumPy's format must fit.
_HEADER = 4096
# The records of a client's answer.
_ANSWER = {"weights", "uploads", "numbers"}


@dataclass(frozen=True)
class Order:
    """What a client receives besides vectors: the run, the round, and which state it starts from."""

    run: str
    start: int | None


def vectors_out(vectors: Mapping[str, Tensor]) -> ArrayRecord:
    """Named vectors as a record."""
    return ArrayRecord({name: Array(value.detach().cpu().numpy()) for name, value in vectors.items()})


def vectors_in(record: ArrayRecord) -> dict[str, Tensor]:
    """A record's vectors, each in memory that torch has aligned as it aligns its own."""
    return {name: torch.from_numpy(array.numpy()).clone() for name, array in record.items()}


def declared_in(record: ArrayRecord, declared: Mapping[str, Form]) -> dict[str, Tensor]:
    """A record's vectors, if they are just those that were declared; nothing else is copied."""
    if set(record) != set(declared):
        names = ", ".join(sorted(record)[:10]) or "none"
        raise ValueError(f"it has the vectors {names}, not {', '.join(sorted(declared)) or 'none'}")
    for name, form in declared.items():
        array, wanted = record[name], " or ".join(form.dtypes)
        if array.dtype not in form.dtypes or array.shape != (form.size,):
            raise ValueError(f"{name} are {array.dtype} {list(array.shape)[:5]}, not {wanted} [{form.size}]")
        if len(array.data) > form.size * torch_dtype(array.dtype).itemsize + _HEADER:
            raise ValueError(f"{name} have {len(array.data)} bytes, too many for {wanted} [{form.size}]")
    return {name: _vector_in(name, record[name], form.size) for name, form in declared.items()}


def _vector_in(name: str, array: Array, size: int) -> Tensor:
    """A vector in NumPy's format, whose own header must say what Flower's record says."""
    head = BytesIO(array.data[:_HEADER])
    if array.stype != "numpy.ndarray" or np.lib.format.read_magic(head) != (1, 0):
        raise ValueError(f"{name} are not in NumPy's format")
    shape, _, dtype = np.lib.format.read_array_header_1_0(head)
    length = len(array.data) - head.tell()
    if dtype != np.dtype(array.dtype) or shape != (size,) or length != size * dtype.itemsize:
        raise ValueError(f"{name} are {dtype} {list(shape)[:5]} in {length} bytes")
    vector = torch.empty(size, dtype=torch_dtype(array.dtype))
    vector.numpy()[:] = np.frombuffer(array.data, dtype, offset=head.tell())
    return vector


def torch_dtype(name: str) -> torch.dtype:
    """The torch type that a NumPy type of this name is."""
    dtype: torch.dtype = getattr(torch, name)
    return dtype


def broadcast_out(broadcast: Broadcast) -> dict[str, ArrayRecord]:
    """The part of a round's message that is the same for every client."""
    return {"weights": vectors_out(broadcast.weights.vectors()), "shared": vectors_out(broadcast.shared)}


def order_out(order: Order, round: int) -> ConfigRecord:
    """The part of a round's message that is for one client."""
    return ConfigRecord(
        {"run": order.run, "round": round, "start": -1 if order.start is None else order.start}
    )


def order_in(content: RecordDict) -> tuple[Order, Broadcast]:
    """What the server sent to a client."""
    order = content.config_records["order"]
    run, round, start = str(order["run"]), int(str(order["round"])), int(str(order["start"]))
    # It becomes the name of a folder on the client's disk.
    if not run.isalnum() or round < 1:
        raise ValueError(f"the server's order has run {run!r} and round {round}")
    weights = weights_in(content.array_records["weights"])
    broadcast = Broadcast(round, weights, vectors_in(content.array_records["shared"]))
    return Order(run, None if start < 0 else start), broadcast


def weights_in(record: ArrayRecord) -> Weights:
    """A model's three vectors."""
    return Weights.from_vectors(vectors_in(record))


def update_out(update: Update, keeps_state: bool, uploads: Mapping[str, Upload] | None = None) -> RecordDict:
    """A client's reply; a skipped client reports only that."""
    if update.skipped is not None:
        return RecordDict({"skipped": ConfigRecord()})
    numbers = {
        "size": update.size,
        "steps": update.steps,
        "loss_before": update.loss_before,
        "loss_after": update.loss_after,
        "forwards": update.forwards,
        "backwards": update.backwards,
        "keeps_state": int(keeps_state),
    }
    weights, others = parts_of(update, uploads or {})
    return RecordDict(
        {
            "weights": vectors_out(weights),
            "uploads": vectors_out(others),
            "numbers": MetricRecord(dict(numbers)),
        }
    )


def is_skipped(content: RecordDict) -> bool:
    """Whether a client was skipped because its loss learns nothing."""
    return "skipped" in content.config_records


def update_in(content: RecordDict, client: int, parts: Parts) -> tuple[Update, bool]:
    """A client's update and whether it keeps a state; an invalid reply becomes an absent update."""
    start = parts.start
    if is_skipped(content):
        return absent(client, start, SKIPPED), False
    try:
        if set(content) != _ANSWER:
            raise ValueError(f"it has the records {', '.join(sorted(map(str, content))[:10])}")
        vectors = declared_in(content.array_records["weights"], parts.weights())
        others = declared_in(content.array_records["uploads"], parts.others())
        numbers = content.metric_records["numbers"]
        update = Update(
            client,
            _count(numbers, "size"),
            parts.read_weights(vectors),
            parts.read_others(others),
            _count(numbers, "steps"),
            _number(numbers, "loss_before"),
            _number(numbers, "loss_after"),
            _count(numbers, "forwards"),
            _count(numbers, "backwards"),
        )
        return update, bool(_count(numbers, "keeps_state"))
    except Exception as error:  # Another party's bytes may fail to parse in any way.
        return absent(client, start, one_line(f"its answer cannot be read: {error}")), False


def one_line(text: str | None) -> str:
    """Another party's text made safe for logs and terminals: printable, one line, of bounded length."""
    line = "".join(letter if letter.isprintable() else " " for letter in text or "no reason given")
    return line if len(line) <= LONGEST else f"{line[:LONGEST]} ..."


def absent(client: int, start: Weights, reason: str) -> Update:
    """The update of a client that has none."""
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

"""Clients with their own data: what server and clients know about each other's samples.

The server has its own data set (in the config): its test part evaluates the model, its training part serves
as public data where a method needs some, and its type, shape, class names and normalization are sent to the
clients, whose data must match. No sample leaves a client; what the server learns is listed in docs/flower.md.

Every message reads a node's data anew. Where they may grow, the content of a sample decides whether it
validates: by its position, a sample that was trained on could later be used for validation.
"""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from torch import Tensor

from eunoe.config.options import Options, Split
from eunoe.config.schema import Config
from eunoe.core.fields import Fields, Ragged, Stored, describe_input
from eunoe.core.tasks import CLASSIFICATION, LANGUAGE_MODEL, MULTILABEL, Regression, Task, TaskName
from eunoe.data.arrays import from_arrays
from eunoe.data.checks import Array, Integers, check_inputs
from eunoe.data.federation import Federation, Part
from eunoe.data.partitions.base import Division
from eunoe.data.samples import DataSet, tensor_bytes
from eunoe.data.sources.npz import read_npz, unpack_fields
from eunoe.errors import InputError
from eunoe.flower.wire import MAX_SAMPLES
from eunoe.simulation.build import build_federation, features_of


class Facts(Options):
    """Properties of the server's data that the data of clients must match."""

    classes: int
    # Type and shape of a sample, in words; and its shape, if it is one tensor.
    form: str
    shape: tuple[int, ...] = ()
    clients: int
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    class_names: tuple[str, ...] | None = None
    task: TaskName = "classification"
    # Of regression targets, for standardization.
    target_mean: tuple[float, ...] | None = None
    target_std: tuple[float, ...] | None = None
    # The number of token ids, on which the size of a text model depends.
    vocabulary: int | None = None
    # Of all clients' training parts; known once all have joined.
    mean_size: float = 0.0
    # Whether clients may get more samples during the run.
    growing: bool = False

    @classmethod
    def of(cls, data: DataSet, clients: int, growing: bool = False) -> "Facts":
        x, task = data.test.x, data.task
        shape = tuple(x.shape[1:]) if isinstance(x, Tensor) else ()
        named = {key: getattr(data, key) for key in ("classes", "mean", "std", "class_names", "vocabulary")}
        if isinstance(task, Regression):
            named |= {"target_mean": task.mean, "target_std": task.std}
        return cls(
            form=describe_input(x), shape=shape, clients=clients, growing=growing, task=task.name, **named
        )

    @property
    def task_with_scale(self) -> Task:
        """The task, in the units of the server's data."""
        if self.target_mean is not None and self.target_std is not None:
            return Regression(self.target_mean, self.target_std)
        return next(each for each in (CLASSIFICATION, MULTILABEL, LANGUAGE_MODEL) if each.name == self.task)


def encode_facts(facts: Facts | None) -> dict[str, ConfigRecord]:
    """Return the part of a message with the facts for clients, if they need any."""
    if facts is None:
        return {}
    values = facts.model_dump(exclude_none=True)
    return {"facts": ConfigRecord({k: list(v) if isinstance(v, tuple) else v for k, v in values.items()})}


def decode_facts(content: RecordDict) -> Facts | None:
    """Return the facts in a message, if it has any."""
    record = content.config_records.get("facts")
    return None if record is None else Facts.model_validate(dict(record))


@dataclass(frozen=True, kw_only=True)
class RemoteFederation(Federation):
    """A federation with the samples of at most one client on this machine."""

    # The training samples that each client reported when it joined, and has reported since.
    declared: Integers
    here: int | None = None
    grown: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.declared)

    @cached_property
    def sizes(self) -> Integers:
        return self.declared

    def size(self, client: int) -> int:
        return self.grown.get(client, int(self.declared[client]))

    def grow(self, client: int, size: int) -> None:
        """Record a client's new number of samples; implausible numbers are ignored."""
        if int(self.sizes[client]) <= size <= MAX_SAMPLES:
            self.grown[client] = size

    def rows(self, client: int, part: Part = "train") -> Integers:
        return super().rows(0, part) if client == self.here else np.empty(0, np.int64)

    def pooled(self, part: Part) -> tuple[Integers, Integers]:
        owner = -1 if self.here is None else self.here
        rows = self.rows(owner, part)
        return rows, np.full(len(rows), owner)

    def _arrays(self) -> dict[str, Integers]:
        return {**super()._arrays(), "declared": self.declared}


def _all_to_one(labels: Integers, rng: np.random.Generator, groups: Integers | None = None) -> Division:
    return np.arange(len(labels)), np.array([0, len(labels)])


def server_federation(config: Config, declared: Integers) -> Federation:
    """Build the server's federation: its own data, and the sizes that clients declared."""
    whole = build_federation(config.model_copy(update={"shift": None}), _all_to_one)
    return RemoteFederation(**_fields(whole), declared=declared)


def client_federation(config: Config, facts: Facts, path: Path, client: int) -> Federation:
    """Build a client's federation: its own data, and the number of clients."""
    data = read_own_data(path, facts)
    data = data if config.backbone is None else features_of(data, config.backbone)
    split = Split(validation=0.0) if facts.growing else config.split
    whole = Federation.build(data, _all_to_one, seed=config.seed, split=split, shift=config.shift)
    if facts.growing:
        whole = split_by_content(whole, config.seed, config.split.validation)
    declared = np.full(facts.clients, whole.size(0))
    return RemoteFederation(**_fields(whole), declared=declared, here=client)


def _fields(federation: Federation) -> dict[str, Any]:
    return {field.name: getattr(federation, field.name) for field in fields(Federation)}


def read_own_data(path: Path, facts: Facts) -> DataSet:
    """Read a client's data, from a .npz with x and y or from a folder with one folder per class."""
    x, y = _read_images(path, facts) if path.is_dir() else _read_arrays(path, facts)
    form = f"{x.dtype} {list(x.shape[1:])}" if isinstance(x, np.ndarray) else describe_input(x)
    if form != facts.form:
        raise InputError(f"{path} has samples of {form}, but the federation expects {facts.form}")
    named = {name: getattr(facts, name) for name in ("classes", "mean", "std", "class_names")}
    # A data set must have a test part; that of a client is not used.
    data = from_arrays(x, y, x[:1], y[:1], name=path.name, task=facts.task_with_scale, **named)
    if facts.vocabulary is None:
        return data
    ids = x.values if isinstance(x, Ragged) else x
    low, high, last = int(ids.min()), int(ids.max()), facts.vocabulary - 1
    if not 0 <= low <= high <= last:
        raise InputError(f"{path} has token ids {low} to {high}; those of the federation are 0..{last}")
    return replace(data, encoding={"ids": facts.vocabulary})


def _read_arrays(path: Path, facts: Facts) -> tuple[Any, Array]:
    arrays = unpack_fields(read_npz(path), ("x", "x_train"))
    x, y = ("x", "y") if {"x", "y"} <= set(arrays) else ("x_train", "y_train")
    if not {x, y} <= set(arrays):
        raise InputError(f"{path} has the arrays {', '.join(arrays)}, but needs x and y")
    inputs, labels = arrays[x], np.atleast_1d(arrays[y])
    if facts.task == "classification" and facts.class_names is not None and "class_names" in arrays:
        own = [str(name) for name in np.atleast_1d(arrays["class_names"])]
        if unknown := sorted(set(own) - set(facts.class_names)):
            raise InputError(f"{path} has the class {unknown[0]!r}, which is not a class of the federation")
        if labels.dtype.kind not in "iu":
            raise InputError(f"{path}: {y} is {labels.dtype}; labels must be integers")
        # As an index a negative label would be counted from the end.
        if (invalid := labels[(labels < 0) | (labels >= len(own))]).size:
            raise InputError(f"{path}: label {invalid.flat[0]} has no class name; there are {len(own)} names")
        labels = np.array([facts.class_names.index(name) for name in own])[labels]
    return inputs if isinstance(inputs, np.ndarray) else check_inputs(inputs, f"{path}: {x}"), labels


def _read_images(path: Path, facts: Facts) -> tuple[Array, Array]:
    from eunoe.data.sources.images import ImageDecoder, read_part

    if facts.class_names is None:
        raise InputError(f"{path} is a folder, but the server's data set has no class names; use a .npz file")
    decoder = ImageDecoder("L" if len(facts.shape) == 2 else "RGB", (facts.shape[0], facts.shape[1]))
    place = path / "train" if (path / "train").is_dir() else path
    return read_part(place, list(facts.class_names), decoder)


def split_by_content(one_client: Federation, seed: int, validation: float) -> Federation:
    """Let each sample of a federation of one client validate with this probability, by its content."""
    rows = one_client.order
    validates = np.array([_draw(one_client.data.train.x, int(row), seed) < validation for row in rows])
    if validates.all():
        # A client with very few samples trains on them.
        validates[:] = False
    return replace(
        one_client,
        order=np.concatenate([rows[~validates], rows[validates]]),
        train_end=np.array([int((~validates).sum())]),
        validation_end=np.array([len(rows)]),
    )


def _draw(stored: Stored, row: int, seed: int) -> float:
    """Draw a number in [0, 1) that is the same for samples with the same content."""
    digest = blake2b(_sample_bytes(stored, row), digest_size=8, key=seed.to_bytes(8, "little")).digest()
    return int.from_bytes(digest, "little") / 2**64


def _sample_bytes(stored: Stored, row: int) -> bytes:
    if isinstance(stored, Fields):
        return b"".join(_sample_bytes(field, row) for field in stored.values)
    return bytes(tensor_bytes(stored[[row]].values if isinstance(stored, Ragged) else stored[row]))

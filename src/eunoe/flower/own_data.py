"""Clients with their own data: what server and clients know about each other's samples.

The server has its own data set (in the config): its test part evaluates the model, its training part
serves as public data where a method needs some, and its type, shape, class names and normalization are sent
to the clients, whose data must match. No sample leaves a client. The server receives the number of training
samples and the trained model; what else it learns, by method and option, is listed in docs/flower.md.
"""

from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from flwr.app import ConfigRecord, RecordDict
from torch import Tensor

from eunoe.config.options import Options, Split
from eunoe.config.schema import Config
from eunoe.core.fields import Ragged, in_words
from eunoe.core.tasks import CLASSIFICATION, MULTILABEL, Regression, Task, TaskName
from eunoe.data.arrays import from_arrays
from eunoe.data.checks import Array, Integers, check_inputs
from eunoe.data.federation import Federation, Part
from eunoe.data.samples import DataSet
from eunoe.data.sources.npz import read_npz, unpack_fields
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.flower.growing import split_by_content
from eunoe.flower.roster import MAX_SAMPLES
from eunoe.simulation.build import UserObjects, build_simulation, features_of, load_data


class Facts(Options):
    """What clients must know about the server's data and each other, so that their own data fit."""

    classes: int
    # Type and shape of a sample, in words; and its shape, if it is one tensor.
    form: str
    shape: tuple[int, ...] = ()
    clients: int
    mean: tuple[float, ...] | None = None
    std: tuple[float, ...] | None = None
    class_names: tuple[str, ...] | None = None
    task: TaskName = "classification"
    # What numbers to predict are standardized by.
    target_mean: tuple[float, ...] | None = None
    target_std: tuple[float, ...] | None = None
    # How many token ids there are, on which the size of a model of text depends.
    vocabulary: int | None = None
    # Of all clients' training parts; known once all have joined.
    mean_size: float = 0.0
    # Whether clients may get more samples while the run goes on.
    growing: bool = False

    @classmethod
    def of(cls, data: DataSet, clients: int, growing: bool = False) -> "Facts":
        return cls(
            classes=data.classes,
            form=in_words(data.test.x),
            shape=tuple(data.test.x.shape[1:]) if isinstance(data.test.x, Tensor) else (),
            clients=clients,
            mean=data.mean,
            std=data.std,
            class_names=data.class_names,
            vocabulary=data.vocabulary,
            growing=growing,
            task=data.task.name,
            **_scale_of(data.task),
        )

    @classmethod
    def from_record(cls, record: ConfigRecord) -> "Facts":
        return cls.model_validate(dict(record))

    @property
    def task_with_scale(self) -> Task:
        """The task, in the units of the server's data."""
        if self.target_mean is not None and self.target_std is not None:
            return Regression(self.target_mean, self.target_std)
        return MULTILABEL if self.task == "multilabel" else CLASSIFICATION

    def record(self) -> ConfigRecord:
        values = self.model_dump(exclude_none=True)
        return ConfigRecord({k: list(v) if isinstance(v, tuple) else v for k, v in values.items()})


def _scale_of(task: Task) -> dict[str, tuple[float, ...]]:
    return {"target_mean": task.mean, "target_std": task.std} if isinstance(task, Regression) else {}


def encode_facts(facts: Facts | None) -> dict[str, ConfigRecord]:
    """The part of a message with the facts for clients, if they need any."""
    return {} if facts is None else {"facts": facts.record()}


def decode_facts(content: RecordDict) -> Facts | None:
    """The facts in a message, if it has any."""
    return Facts.from_record(content.config_records["facts"]) if "facts" in content.config_records else None


@dataclass(frozen=True)
class RemoteFederation(Federation):
    """A federation with the samples of at most one client on this machine."""

    here: int | None = None
    # How many training samples each client reported when it joined, and has reported since.
    declared: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    grown: dict[int, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.declared)

    @cached_property
    def sizes(self) -> Integers:
        return self.declared

    def size(self, client: int) -> int:
        return self.grown.get(client, super().size(client))

    def grow(self, client: int, size: int) -> None:
        """Note that a client has more samples than when it joined; fewer, or too many, are not believed."""
        if int(self.sizes[client]) <= size <= MAX_SAMPLES:
            self.grown[client] = size

    def rows(self, client: int, part: Part = "train") -> Integers:
        return super().rows(0, part) if client == self.here else np.empty(0, np.int64)

    def pooled(self, part: Part) -> tuple[Integers, Integers]:
        rows = np.empty(0, np.int64) if self.here is None else self.rows(self.here, part)
        return rows, np.full(len(rows), -1 if self.here is None else self.here)

    def _arrays(self) -> dict[str, Integers]:
        return {**super()._arrays(), "declared": self.declared}


def _all_to_one(
    labels: Integers, rng: np.random.Generator, groups: Integers | None = None
) -> tuple[Integers, Integers]:
    return np.arange(len(labels)), np.array([0, len(labels)])


def server_federation(config: Config, declared: Integers) -> Federation:
    """The federation as the server sees it: its own data, and how much the clients have."""
    public = config.public
    whole = Federation.build(
        load_data(config.data, config.backbone),
        _all_to_one,
        seed=config.seed,
        split=config.split,
        public=public,
        public_data=None if public.data is None else load_data(public.data, config.backbone),
    )
    return _remote_federation(whole, None, declared)


def client_federation(config: Config, facts: Facts, path: Path, client: int) -> Federation:
    """The federation as a client sees it: its own data, and how many clients there are."""
    data = own_data(path, facts)
    data = data if config.backbone is None else features_of(data, config.backbone)
    split = Split(validation=0.0) if facts.growing else config.split
    whole = Federation.build(data, _all_to_one, seed=config.seed, split=split, shift=config.shift)
    if facts.growing:
        whole = split_by_content(whole, config.seed, config.split.validation)
    return _remote_federation(whole, client, np.full(facts.clients, len(whole.rows(0))))


def client_simulation(config: Config, facts: Facts, path: Path, client: int) -> Simulation:
    """The simulation of a client that trains on its own data."""
    simulation = build_simulation(
        config, UserObjects(federation=client_federation(config, facts, path, client))
    )
    return replace(simulation, context=replace(simulation.context, mean_size=facts.mean_size))


def own_data(path: Path, facts: Facts) -> DataSet:
    """A client's data, from a .npz with x and y or from a folder with one folder per class."""
    x, y = _pictures(path, facts) if path.is_dir() else _arrays(path, facts)
    given = f"{x.dtype} {list(x.shape[1:])}" if isinstance(x, np.ndarray) else in_words(x)
    if given != facts.form:
        raise InputError(f"{path} holds {given}, but the federation works on {facts.form}")
    if facts.vocabulary is not None:
        ids = x.values if isinstance(x, Ragged) else x
        if not 0 <= int(ids.min()) <= int(ids.max()) < facts.vocabulary:
            raise InputError(
                f"{path} holds ids from {int(ids.min())} to {int(ids.max())}; "
                f"those of the federation are 0..{facts.vocabulary - 1}"
            )
    # A data set has a test part; here the server's is the one that counts.
    data = from_arrays(
        x,
        y,
        x[:1],
        y[:1],
        name=path.name,
        task=facts.task_with_scale,
        classes=facts.classes,
        class_names=facts.class_names,
        mean=facts.mean,
        std=facts.std,
    )
    return data if facts.vocabulary is None else replace(data, encoding={"ids": facts.vocabulary})


def _arrays(path: Path, facts: Facts) -> tuple[Any, Array]:
    arrays = unpack_fields(read_npz(path), ("x", "x_train"))
    for x, y in (("x", "y"), ("x_train", "y_train")):
        if x in arrays and y in arrays:
            break
    else:
        raise InputError(f"{path} holds {', '.join(arrays)}; it must hold x and y")
    labels = arrays[y]
    if facts.task == "classification" and facts.class_names is not None and "class_names" in arrays:
        own = [str(name) for name in arrays["class_names"]]
        if strange := sorted(set(own) - set(facts.class_names)):
            raise InputError(f"{path} has the class {strange[0]!r}, which is not a class of the federation")
        if labels.dtype.kind not in "iu":
            raise InputError(f"{path}: {y} is {labels.dtype}; labels must be integers")
        # As an index a negative label would be counted from the end.
        if (nameless := labels[(labels < 0) | (labels >= len(own))]).size:
            raise InputError(
                f"{path}: found label {nameless.flat[0]}; "
                f"its {len(own)} class names have labels 0..{len(own) - 1}"
            )
        labels = np.array([facts.class_names.index(name) for name in own])[labels]
    inputs = arrays[x]
    return inputs if isinstance(inputs, np.ndarray) else check_inputs(inputs, f"{path}: {x}"), labels


def _pictures(path: Path, facts: Facts) -> tuple[Array, Array]:
    from eunoe.data.sources.folder import read_part
    from eunoe.data.sources.images import ImageDecoder

    if facts.class_names is None:
        raise InputError(f"{path} is a folder, but the server's data set has no class names; use a .npz file")
    decoder = ImageDecoder("L" if len(facts.shape) == 2 else "RGB", (facts.shape[0], facts.shape[1]))
    place = path / "train" if (path / "train").is_dir() else path
    return read_part(place, list(facts.class_names), decoder)


def _remote_federation(whole: Federation, here: int | None, declared: Integers) -> RemoteFederation:
    values = {one.name: getattr(whole, one.name) for one in fields(Federation)}
    return RemoteFederation(**values, here=here, declared=declared)

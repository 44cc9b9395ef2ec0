"""The federation: the samples of each client, the public set, and the test set.

Samples stay in one tensor in their original dtype. Clients are slices of one index array, so a million of
them cost megabytes, and what is computed per client is computed on demand.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from numpy.typing import ArrayLike
from safetensors.numpy import save_file
from torch import Tensor

from eunoe.config import registry
from eunoe.config.options import FeatureShift, Public, Split
from eunoe.core.fields import Input, describe_input, gather
from eunoe.core.rng import generator
from eunoe.core.tasks import Task
from eunoe.data.arrays import check_targets, from_arrays, from_rows, stack_dataset
from eunoe.data.checks import InputLike, Integers, check_ids, check_inputs, check_lengths
from eunoe.data.partitions.base import Division, ranges
from eunoe.data.preprocess import InputForm, Preprocess, input_form
from eunoe.data.samples import DataSet, Samples
from eunoe.data.split import choose_public_set, draw_test_rows, split_clients
from eunoe.data.streams.base import Changes
from eunoe.data.transforms import shift_inputs
from eunoe.errors import InputError

# The parts of a client's samples in the order of its rows, and the sets of samples that rows can refer to.
Part = Literal["train", "validation", "test"]
PARTS = get_args(Part)
# Besides these, the parts of a reference set: "retain test NAME" and "retain train NAME".
SampleSet = Literal["clients", "public", "test"] | str


@dataclass(frozen=True, repr=False)
class Federation:
    """Clients with their parts of the data, a public set and a global test set.

    Client k owns the rows `order[offsets[k]:offsets[k + 1]]` of the training samples: first its
    training part (up to `train_end[k]`), then its validation part (up to `validation_end[k]`), then,
    if there is one, a test part of its own.
    """

    data: DataSet
    order: Integers
    offsets: Integers
    train_end: Integers
    validation_end: Integers
    public: Samples | None = None
    public_train: Integers | None = None
    public_validation: Integers | None = None
    shift: FeatureShift | None = None
    shift_seed: int = 0
    dtype: torch.dtype = torch.float32
    # Whether the labels of the public set are the clients' classes.
    public_labeled: bool = True
    # How the federation changes over the rounds, if it does.
    changes: Changes | None = None
    # Data sets on which retention is measured, by name.
    references: Mapping[str, DataSet] = field(default_factory=dict)

    @classmethod
    def build(
        cls,
        data: DataSet,
        partition: Callable[..., Division],
        *,
        seed: int = 0,
        split: Split | None = None,
        public: Public | None = None,
        public_data: DataSet | None = None,
        shift: FeatureShift | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> "Federation":
        """Set the public part aside, partition the rest among clients, and split each client's samples."""
        labels, groups = data.train.y.numpy(), data.owners
        split = split or Split()
        samples, public_rows = choose_public_set(data, public_data, public or Public(), seed)
        rest = public_rows.remaining
        groups_left = None if groups is None else groups[rest]
        order, offsets = partition(labels[rest], generator(seed, "partition"), groups_left)
        if groups is not None:
            data = data.with_test_writers(groups[rest[order]])
        order, train_end, validation_end = split_clients(
            rest[order], offsets, generator(seed, "split"), split.validation, split.test
        )
        return cls(
            *(data, order, offsets, train_end, validation_end),
            public=samples,
            public_train=public_rows.train,
            public_validation=public_rows.validation,
            shift=shift,
            shift_seed=seed,
            dtype=dtype,
            public_labeled=public_data is None or public_data.has_classes_of(data),
        )

    @classmethod
    def from_arrays(
        cls,
        x: InputLike,
        y: ArrayLike | Tensor,
        x_test: InputLike | None = None,
        y_test: ArrayLike | Tensor | None = None,
        *,
        client_ids: ArrayLike | Tensor | None = None,
        partition: str = "dirichlet",
        seed: int = 0,
        test: float = 0.2,
        validation: float = 0.1,
        public: float = 0.0,
        task: str | None = None,
        mean: tuple[float, ...] | None = None,
        std: tuple[float, ...] | None = None,
        **options: Any,
    ) -> "Federation":
        """Build a federation from your own arrays, which are as in `eunoe.data.from_arrays`.

        With `client_ids` (one per sample) the data are divided by them; otherwise by the named partition,
        whose options (such as clients and alpha) are further keyword arguments. Without test arrays, a share
        `test` of the samples becomes the test part.
        """
        if (x_test is None) != (y_test is None):
            raise InputError("pass both x_test and y_test, or neither")
        # Checked here under the names of the arguments.
        inputs, (kind, labels) = check_inputs(x, "x"), check_targets(y, "y", task)
        check_lengths(inputs, labels, "x", "y")
        ids = None if client_ids is None else check_ids(client_ids, "client_ids", len(inputs))
        known: dict[str, Any] = {"task": kind, "mean": mean, "std": std}
        if x_test is None or y_test is None:
            test_rows = draw_test_rows(len(inputs), test, generator(seed, "test"))
            data = from_rows(inputs, labels, test_rows, ids, **known)
        else:
            data = from_arrays(inputs, labels, x_test, y_test, writer_train=ids, **known)
        return cls.build(
            data,
            registry.build("partition", partition if client_ids is None else "natural", options),
            seed=seed,
            split=Split.read({"validation": validation}, "split"),
            public=Public.read({"share": public}, "public"),
        )

    @classmethod
    def from_torch(
        cls,
        train: "torch.utils.data.Dataset[Any]",
        test: "torch.utils.data.Dataset[Any] | None" = None,
        **options: Any,
    ) -> "Federation":
        """Build a federation from torch Datasets of (input, label) pairs; options as in `from_arrays`.

        Their transforms are applied once: random ones belong in the config (`augment`) instead.
        """
        test_arrays = () if test is None else stack_dataset(test, "test")
        return cls.from_arrays(*stack_dataset(train, "train"), *test_arrays, **options)

    def __len__(self) -> int:
        """Return the number of clients."""
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        samples, x = int(self.sizes.sum()), self.data.train.x
        inputs = list(self.shape) if isinstance(x, Tensor) else describe_input(x)
        return (
            f"Federation({len(self):,} clients, {samples:,} training samples, {self.classes} "
            f"{self.task.outputs}, inputs {inputs})"
        )

    @property
    def classes(self) -> int:
        return self.data.classes

    @property
    def task(self) -> Task:
        return self.data.task

    @cached_property
    def sizes(self) -> Integers:
        """The number of training samples of each client."""
        return self.train_end - self.offsets[:-1]

    @cached_property
    def preprocess(self) -> Preprocess:
        return Preprocess(self.data, self.dtype)

    @cached_property
    def form(self) -> InputForm:
        """The shapes of inputs as the model sees them."""
        return input_form(self.data.train.x, self.preprocess)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input as the model sees it, with the largest length if it varies."""
        return self.form.shape

    def size(self, client: int) -> int:
        """Return the number of training samples of a client."""
        return len(self.rows(client))

    def sizes_of(self, clients: Sequence[int] | Integers) -> Integers:
        """Return the number of training samples of each of these clients."""
        return np.array([self.size(int(client)) for client in clients], np.int64)

    def present(self, client: int) -> bool:
        """Return whether a client can take part."""
        return True

    def samples(self, source: SampleSet) -> Samples:
        """Return the samples that rows of this set refer to."""
        if source.startswith("retain "):
            _, part, name = source.split(" ", 2)
            return self.references[name].test if part == "test" else self.references[name].train
        samples = {"clients": self.data.train, "test": self.data.test, "public": self.public}[source]
        if samples is None:
            raise InputError("there is no public set; set public.share above 0")
        return samples

    def rows(self, client: int, part: Part = "train") -> Integers:
        """Return the rows of a client's part."""
        starts, ends = self._bounds(part)
        return self.order[starts[client] : ends[client]]

    def pooled(self, part: Part) -> tuple[Integers, Integers]:
        """Return the rows of this part of all clients, and the owner of each."""
        starts, ends = self._bounds(part)
        return self.order[ranges(starts, ends - starts)], np.repeat(np.arange(len(self)), ends - starts)

    def _bounds(self, part: Part) -> tuple[Integers, Integers]:
        """Return where each client's part starts and ends in `order`."""
        bounds = (self.offsets[:-1], self.train_end, self.validation_end, self.offsets[1:])
        place = PARTS.index(part)
        return bounds[place], bounds[place + 1]

    @cached_property
    def test_owners(self) -> Integers | None:
        """The client of each test sample, -1 for none; None if unknown, and under a feature shift."""
        test = self.data.writers_test
        if test is None or self._writers is None or self.shift is not None:
            return None
        clients = {writer: client for client, writer in enumerate(self._writers.tolist())}
        return np.array([clients.get(writer, -1) for writer in test.tolist()], np.int64)

    @property
    def client_names(self) -> list[str] | None:
        """The name of each client; None if unknown."""
        names = self.data.writer_names
        return None if names is None or self._writers is None else [names[k] for k in self._writers]

    @cached_property
    def _writers(self) -> Integers | None:
        """The writer of each client; None if a client is not exactly one writer."""
        writers = self.data.owners
        return None if writers is None else find_writers(writers[self.order], self.offsets)

    def counts(self, client: int, part: Part = "train") -> Tensor:
        """Return the number of samples per class (or label) of a client's part; for regression, of all."""
        return self.counts_of(self.rows(client, part))

    def counts_of(self, rows: Integers) -> Tensor:
        """Return the number of samples per class of these rows."""
        labels = self.data.train.y[torch.from_numpy(rows)]
        return self.task.counts(labels, torch.zeros(len(rows), dtype=torch.int64), 1, self.classes)[0]

    def all_counts(self, part: Part = "train") -> Integers:
        """Return the number of samples per class in each client's part [clients, classes]."""
        rows, owners = (torch.from_numpy(array) for array in self.pooled(part))
        return self.task.counts(self.data.train.y[rows], owners, len(self), self.classes).numpy()

    def inputs(self, source: SampleSet, rows: Tensor, client: int | None = None) -> Input:
        """Return inputs for rows of a set, shifted as a client's."""
        x: Input = self.preprocess(gather(self.samples(source).x, rows))
        return x if client is None else self.shifted(x, client)

    def shifted(self, x: Input, client: int) -> Input:
        """Apply the feature shift of a client, if there is one."""
        if self.shift is None or not isinstance(x, Tensor):
            return x
        return shift_inputs(x, self.shift, self.shift_seed, client)

    def checksum(self) -> str:
        """Return a hash of the rows of all clients."""
        digest = hashlib.sha256()
        for name, array in self._arrays().items():
            digest.update(f"{name} {len(array)} ".encode() + array.tobytes())
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        """Write the rows of all clients (not the samples) as safetensors."""
        save_file(self._arrays(), path)

    def _arrays(self) -> dict[str, Integers]:
        parts = ("order", "offsets", "train_end", "validation_end", "public_train", "public_validation")
        return {name: array for name in parts if (array := getattr(self, name)) is not None}


def in_round(federation: Federation, round: int) -> Federation:
    """Return the federation in a round."""
    if isinstance(federation, FederationInRound) and federation.round == round:
        return federation
    whole = federation.whole if isinstance(federation, FederationInRound) else federation
    if whole.changes is None:
        return whole
    values = {field.name: getattr(whole, field.name) for field in fields(Federation)}
    if whole.shift is not None:
        strength = whole.shift.strength * whole.changes.shift(round)
        values["shift"] = whole.shift.model_copy(update={"strength": strength}) if strength else None
    current = FederationInRound(**values, round=round, whole=whole)
    # Shared, since it is measured on all data.
    vars(current)["preprocess"] = whole.preprocess
    return current


@dataclass(frozen=True, repr=False, kw_only=True)
class FederationInRound(Federation):
    """A federation in one round; validation and test parts do not change."""

    round: int
    whole: Federation
    changes: Changes
    _rows: dict[int, Integers] = field(default_factory=dict)

    def rows(self, client: int, part: Part = "train") -> Integers:
        if part != "train":
            return super().rows(client, part)
        if client not in self._rows:
            self._rows[client] = self.changes.rows(client, self.round, super().rows(client))
        return self._rows[client]

    def present(self, client: int) -> bool:
        return self.changes.present(client, self.round) and self.size(client) > 0


def find_writers(writers: Integers, offsets: Integers) -> Integers | None:
    """Return the writer of each client, from those of its samples; None if they are not one to one."""
    clients = len(offsets) - 1
    owners = np.repeat(np.arange(clients), np.diff(offsets))
    pairs = np.unique(np.stack([owners, writers]), axis=1)
    one_to_one = len(pairs[0]) == clients and len(np.unique(pairs[1])) == clients
    return pairs[1] if one_to_one and clients else None

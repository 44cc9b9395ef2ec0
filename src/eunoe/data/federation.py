"""The federation: the samples of each client, the public set, and the test set.

Samples stay in one tensor in their original dtype. Clients are slices of one index array, so a million of
them cost megabytes, and whatever is computed per client is computed on demand.
"""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from pydantic import ValidationError
from safetensors.numpy import save_file
from torch import Tensor

from eunoe.config import registry
from eunoe.config.messages import explain
from eunoe.config.options import FeatureShift, Public, Split
from eunoe.core.fields import Input, gather, in_words
from eunoe.core.rng import generator
from eunoe.core.tasks import Task
from eunoe.data.arrays import own_data, stacked
from eunoe.data.changes import Changes
from eunoe.data.feature_shift import client_shift
from eunoe.data.field_arrays import Given
from eunoe.data.input_form import InputForm, form_of
from eunoe.data.preprocess import Preprocess
from eunoe.data.public import set_public_aside
from eunoe.data.samples import DataSet, Samples
from eunoe.data.split import split as split_clients
from eunoe.data.writers import positions_of, writer_of_each
from eunoe.errors import InputError

Integers = NDArray[np.int64]
Part = Literal["train", "validation", "test"]
Source = Literal["clients", "public", "test"]


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
    # Whether the labels of the public set mean the clients' classes.
    public_labeled: bool = True
    # How it changes with the rounds; None: it does not.
    changes: Changes | None = None

    @classmethod
    def build(
        cls,
        data: DataSet,
        partition: Callable[..., tuple[Integers, Integers]],
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
        split, aside = split or Split(), set_public_aside(data, public_data, public or Public(), seed)
        rest = aside.remaining
        left = None if groups is None else groups[rest]
        order, offsets = partition(labels[rest], generator(seed, "partition"), left)
        if groups is not None:
            data = data.tested_on(groups[rest[order]])
        parts = split_clients(rest[order], offsets, generator(seed, "split"), split.validation, split.test)
        return cls(
            data,
            parts.order,
            offsets,
            *parts[1:],
            aside.samples,
            aside.train,
            aside.validation,
            shift,
            seed,
            dtype,
            public_labeled=public_data is None or public_data.has_classes_of(data),
        )

    @classmethod
    def from_arrays(
        cls,
        x: Given,
        y: ArrayLike | Tensor,
        x_test: Given | None = None,
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
        """A federation from your own arrays.

        Inputs of several fields are a dict or tuple with an array, or a list of arrays of varying length, for
        each. With `client_ids` (one per sample) the data are divided by them; otherwise by the named
        partition, whose options (such as clients and alpha) are further keyword arguments. Without
        test arrays, a share `test` of the samples is set aside. `y` is an integer per sample for classes, a
        row of 0 and 1 for labels, or real numbers; `task` states which where that is open.
        """
        data = own_data(
            x, y, x_test, y_test, client_ids, generator(seed, "test"), test, task=task, mean=mean, std=std
        )
        name = partition if client_ids is None else "natural"
        made = registry.build("partition", name, options)
        try:
            split, taken = Split(validation=validation), Public(share=public)
        except ValidationError as error:
            raise InputError(explain(error)) from None
        return cls.build(data, made, seed=seed, split=split, public=taken)

    @classmethod
    def from_torch(
        cls,
        train: "torch.utils.data.Dataset[Any]",
        test: "torch.utils.data.Dataset[Any] | None" = None,
        **options: Any,
    ) -> "Federation":
        """A federation from your own torch Datasets of (input, label) pairs; options as in `from_arrays`.

        Their transforms are applied once: random ones belong in the config (`augment`) instead.
        """
        tested = () if test is None else stacked(test, "test")
        return cls.from_arrays(*stacked(train, "train"), *tested, **options)

    def __len__(self) -> int:
        """The number of clients."""
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        samples, x = int(self.sizes.sum()), self.data.train.x
        inputs = list(self.shape) if isinstance(x, Tensor) else in_words(x)
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
        """How many training samples each client has."""
        return self.train_end - self.offsets[:-1]

    @cached_property
    def preprocess(self) -> Preprocess:
        return Preprocess(self.data, self.dtype)

    @cached_property
    def form(self) -> InputForm:
        """What inputs look like as the model sees them."""
        return form_of(self.data.train.x, self.preprocess)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of one input as the model sees it; with the largest length, where it varies."""
        return self.form.shape

    def size(self, client: int) -> int:
        """How many training samples a client has."""
        return int(self.sizes[client])

    def sizes_of(self, clients: Sequence[int] | Integers) -> Integers:
        """How many training samples each of these clients has."""
        return self.sizes[np.asarray(clients, np.int64)]

    def present(self, client: int) -> bool:
        """Whether a client can take part."""
        return True

    def trained_rows(self, client: int) -> Integers:
        """The rows that a client trains on: its own, and those of earlier rounds that it has kept."""
        return self.rows(client)

    def samples(self, source: Source) -> Samples:
        """The samples that rows of this source refer to."""
        if source == "clients":
            return self.data.train
        if source == "test":
            return self.data.test
        if self.public is None:
            raise InputError("there is no public set; set public.share above 0")
        return self.public

    def rows(self, client: int, part: Part = "train") -> Integers:
        """The rows of a client's part."""
        train, validation = self.train_end[client], self.validation_end[client]
        first, last = {
            "train": (self.offsets[client], train),
            "validation": (train, validation),
            "test": (validation, self.offsets[client + 1]),
        }[part]
        return self.order[first:last]

    def pooled(self, part: Part) -> tuple[Integers, Integers]:
        """The rows of this part of all clients, and which client owns each."""
        first, last = {
            "train": (self.offsets[:-1], self.train_end),
            "validation": (self.train_end, self.validation_end),
            "test": (self.validation_end, self.offsets[1:]),
        }[part]
        sizes = last - first
        ends = np.cumsum(sizes)
        positions = np.arange(ends[-1] if len(ends) else 0) + np.repeat(first - (ends - sizes), sizes)
        return self.order[positions], np.repeat(np.arange(len(self)), sizes)

    @cached_property
    def test_owners(self) -> Integers | None:
        """Whose own each sample of the test set is, -1 if no client's; None if the data do not say.

        They do where each client is one writer. Under a feature shift the test set is nobody's: it is not
        shifted.
        """
        test = self.data.writers_test
        if test is None or self._writer_of is None or self.shift is not None:
            return None
        return positions_of(test.numpy(), self._writer_of)

    @property
    def client_names(self) -> list[str] | None:
        """What each client is called; None if the data do not say."""
        names = self.data.writer_names
        return None if names is None or self._writer_of is None else [names[k] for k in self._writer_of]

    @cached_property
    def _writer_of(self) -> Integers | None:
        """The writer that each client is; None if one is not exactly one writer."""
        writers = self.data.writers_train
        return None if writers is None else writer_of_each(writers.numpy()[self.order], self.offsets)

    def counts(self, client: int, part: Part = "train") -> Tensor:
        """How many samples of each class a client's part has; of each label; all of them for numbers."""
        return self.counts_of(self.rows(client, part))

    def counts_of(self, rows: Integers) -> Tensor:
        """The same of some rows of the clients' samples."""
        labels = self.data.train.y[torch.from_numpy(rows)]
        return self.task.counts(labels, torch.zeros(len(rows), dtype=torch.int64), 1, self.classes)[0]

    def all_counts(self) -> Integers:
        """How many training samples of each class each client has [clients, classes]."""
        rows, owners = (torch.from_numpy(array) for array in self.pooled("train"))
        return self.task.counts(self.data.train.y[rows], owners, len(self), self.classes).numpy()

    def inputs(
        self, source: Source, rows: Tensor, client: int | None = None, few_lengths: bool = False
    ) -> Input:
        """Model inputs for rows of a source, padded to the longest; a client's rows as that client sees them.

        With `few_lengths` they are padded a little more, so that shapes repeat.
        """
        x: Input = self.preprocess(gather(self.samples(source).x, rows, few_lengths))
        return x if client is None else self.shifted(x, client)

    def shifted(self, x: Input, client: int) -> Input:
        """Model inputs as this client sees them, under its feature shift if there is one."""
        if self.shift is None or not isinstance(x, Tensor):
            return x
        return client_shift(self.shift, self.shift_seed, client).apply(x)

    def checksum(self) -> str:
        """A hash of the rows of all clients."""
        digest = hashlib.sha256()
        for name, array in self._arrays().items():
            digest.update(f"{name} {len(array)} ".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        return digest.hexdigest()

    def save(self, path: Path) -> None:
        """Write the rows of all clients (not the samples) as safetensors."""
        save_file(self._arrays(), path)

    def _arrays(self) -> dict[str, Integers]:
        arrays = {
            "order": self.order,
            "offsets": self.offsets,
            "train_end": self.train_end,
            "validation_end": self.validation_end,
            "public_train": self.public_train,
            "public_validation": self.public_validation,
        }
        return {name: array for name, array in arrays.items() if array is not None}

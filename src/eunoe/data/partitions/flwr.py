"""The partitioners of flwr-datasets as partitions: `flwr:DirichletPartitioner`, with its own options."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from eunoe.data.checks import Array
from eunoe.data.partitions.base import Division, offsets_of
from eunoe.errors import InputError, first_line, nearest

# The columns that a partitioner may divide by, and the one with the number of each row.
LABEL, CLIENT, ROW = "label", "client", "row"


def find_partitioner(name: str) -> Callable[..., "FlwrPartition"]:
    """Return a function that builds a partition from options, by the partitioner of this name."""
    try:
        from flwr_datasets import partitioner
    except ModuleNotFoundError as error:
        raise InputError(f"partition 'flwr:{name}' needs {error.name}: pip install flwr-datasets") from None
    known = [name for name in dir(partitioner) if name.endswith("Partitioner") and name != "Partitioner"]
    if name not in known:
        raise InputError(f"flwr-datasets has no partitioner {name!r}; {nearest(name, known)}")

    def build(**options: Any) -> FlwrPartition:
        return FlwrPartition(getattr(partitioner, name), name, options)

    build.__doc__ = f"The {name} of flwr-datasets, with its options."
    return build


class FlwrPartition:
    """Divides samples by a partitioner of flwr-datasets.

    It sees a column of labels, by which it divides unless another is named, and one of clients if the data
    have them. A random partitioner gets a seed from that of the run, unless the options set one.
    """

    def __init__(self, partitioner_class: Callable[..., Any], name: str, options: dict[str, Any]) -> None:
        self.partitioner_class, self.options = partitioner_class, options
        self.name = f"partition 'flwr:{name}'"
        parameters = inspect.signature(partitioner_class).parameters
        for key in options:
            if key not in parameters:
                raise InputError(f"{self.name} has no option {key!r}; {nearest(key, parameters)}")
        self.seeded = "seed" in parameters and "seed" not in options
        if "partition_by" in parameters:
            self.options = {"partition_by": LABEL, **options}
        self._make_partitioner(0)

    def _make_partitioner(self, seed: int) -> Any:
        try:
            return self.partitioner_class(**self.options, **({"seed": seed} if self.seeded else {}))
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.name}: {first_line(error)}") from None

    def __call__(self, labels: Array, generator: Generator, groups: Array | None = None) -> Division:
        """Return the rows of all clients, concatenated, and the offset of each client."""
        from datasets import Dataset

        if labels.ndim > 1 and self.options.get("partition_by") == LABEL:
            raise InputError(f"{self.name} divides by class, but the data have none: set partition_by")
        columns = {ROW: np.arange(len(labels)), **({} if labels.ndim > 1 else {LABEL: labels})}
        columns |= {} if groups is None else {CLIENT: groups}
        partitioner = self._make_partitioner(int(generator.integers(1 << 31)))
        partitioner.dataset = Dataset.from_dict(columns)
        try:
            if (clients := partitioner.num_partitions) > len(labels):
                raise ValueError(f"{clients:,} clients cannot share {len(labels):,} samples")
            parts = [partitioner.load_partition(client) for client in range(clients)]
        except (TypeError, ValueError, LookupError) as error:
            raise InputError(f"{self.name}: {first_line(error)}") from None
        if not all(ROW in part.column_names for part in parts):
            raise InputError(f"{self.name} divides columns, not samples; use one that divides samples")
        rows = [np.asarray(part.with_format("numpy")[ROW][:], np.int64) for part in parts]
        order = np.concatenate(rows)
        if len(np.unique(order)) < len(order):
            raise InputError(f"{self.name} assigns a sample to several clients; use one that divides samples")
        return order, offsets_of(np.array([len(part) for part in rows]))

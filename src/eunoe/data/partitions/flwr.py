"""The partitioners of flwr-datasets as partitions: `flwr:DirichletPartitioner`, with its own options."""

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from eunoe.data.partitions.base import Integers, offsets_of
from eunoe.errors import InputError, first_line, nearest

# The columns that a partitioner may divide by, and the one that says which rows a client got.
LABEL, CLIENT, ROW = "label", "client", "row"


def partition_of(name: str) -> Callable[..., "FlwrPartition"]:
    """What makes a partition of options, by the partitioner of this name."""
    try:
        from flwr_datasets import partitioner
    except ModuleNotFoundError as error:
        raise InputError(
            f"partition 'flwr:{name}' needs a package that is not installed ({error.name}): "
            "pip install flwr-datasets"
        ) from None
    known = [name for name in dir(partitioner) if name.endswith("Partitioner") and name != "Partitioner"]
    if name not in known:
        raise InputError(f"flwr-datasets has no partitioner {name!r}; {nearest(name, known)}")
    theirs: Callable[..., Any] = getattr(partitioner, name)

    def made(**options: Any) -> FlwrPartition:
        return FlwrPartition(theirs, options)

    made.__doc__ = f"The {name} of flwr-datasets, with its options."
    return made


class FlwrPartition:
    """Divides samples as a partitioner of flwr-datasets does.

    It sees a column of labels, by which it divides if nothing else is named, and one of clients where the
    data have them. A partitioner that draws gets a seed from the run's, unless the options name one.
    """

    def __init__(self, theirs: Callable[..., Any], options: dict[str, Any]) -> None:
        self.theirs, self.options = theirs, options
        parameters = inspect.signature(theirs).parameters
        for key in options:
            if key not in parameters:
                raise InputError(f"{self.name} has no option {key!r}; {nearest(key, parameters)}")
        self.seeded = "seed" in parameters and "seed" not in options
        if "partition_by" in parameters:
            self.options = {"partition_by": LABEL, **options}
        self._partitioner(0)

    @property
    def name(self) -> str:
        return f"partition 'flwr:{getattr(self.theirs, '__name__', '')}'"

    def _partitioner(self, seed: int) -> Any:
        try:
            return self.theirs(**self.options, **({"seed": seed} if self.seeded else {}))
        except (TypeError, ValueError) as error:
            raise InputError(f"{self.name}: {first_line(error)}") from None

    def __call__(
        self, labels: NDArray[Any], generator: np.random.Generator, groups: NDArray[Any] | None = None
    ) -> tuple[Integers, Integers]:
        """The rows of all clients, concatenated, and the offset of each client."""
        from datasets import Dataset

        several = labels.ndim > 1
        if several and self.options.get("partition_by") == LABEL:
            raise InputError(f"{self.name} divides by class, and these data have none: set partition_by")
        columns = {ROW: np.arange(len(labels)), **({} if several else {LABEL: labels})}
        columns |= {} if groups is None else {CLIENT: groups}
        divided = self._partitioner(int(generator.integers(1 << 31)))
        divided.dataset = Dataset.from_dict(columns)
        try:
            if (clients := divided.num_partitions) > len(labels):
                raise ValueError(f"{clients:,} clients cannot share {len(labels):,} samples")
            parts = [divided.load_partition(client) for client in range(clients)]
        except (TypeError, ValueError, LookupError) as error:
            raise InputError(f"{self.name}: {first_line(error)}") from None
        if not all(ROW in part.column_names for part in parts):
            raise InputError(f"{self.name} divides columns, not samples; take one that divides samples")
        rows = [np.asarray(part.with_format("numpy")[ROW][:], np.int64) for part in parts]
        order = np.concatenate(rows)
        if len(np.unique(order)) < len(order):
            raise InputError(f"{self.name} gives a sample to several clients; take one that divides samples")
        return order, offsets_of(np.array([len(part) for part in rows]))

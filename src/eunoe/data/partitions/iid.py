"""IID clients: a random division into equal parts."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from eunoe.core.tasks import EVERY
from eunoe.data.partitions.base import Integers, Partition


class Iid(Partition):
    """All samples in random order, divided into sizes that differ by one at most."""

    tasks = EVERY

    def divide(
        self, labels: NDArray[Any], generator: np.random.Generator, groups: NDArray[Any] | None
    ) -> tuple[Integers, Integers]:
        offsets = np.arange(self.clients + 1, dtype=np.int64) * len(labels) // self.clients
        return generator.permutation(len(labels)), offsets

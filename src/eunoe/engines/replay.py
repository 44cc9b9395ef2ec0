"""Replay: a client keeps some of the samples it has seen and trains on them beside those it has now.

Which samples stay is decided by class-balanced reservoir sampling (Chrysakis and Moens, 2020,
https://proceedings.mlr.press/v119/chrysakis20a.html): while the memory has room every sample is stored; then
a sample of a class that was never the largest one in memory takes the place of a random sample of the
largest class, and one of another class takes the place of a random one of its own with probability
(stored of its class) / (seen of its class). The memory never leaves the client and costs no traffic: it is
part of the client's state, as row numbers, with the labels seen and whether a class was ever the largest.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eunoe.core.flat_model import Vectors

Integers = NDArray[np.int64]
# Names that no method gives to its own state.
ROWS, SEEN, FULL = "replay rows", "replay seen", "replay full"


@dataclass
class Memory:
    """The rows that a client keeps, how many samples of each class it has seen, and which classes were ever
    the largest."""

    size: int
    classes: int
    rows: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    seen: Integers = field(default_factory=lambda: np.empty(0, np.int64))
    full: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, np.bool_))

    @classmethod
    def of(cls, state: Mapping[str, Tensor], size: int, classes: int) -> "Memory":
        """The memory in a client's state; an empty one before it has any."""
        if ROWS not in state:
            return cls(size, classes, seen=np.zeros(classes, np.int64), full=np.zeros(classes, np.bool_))
        # A resumed run may have another size.
        rows = state[ROWS].cpu().numpy()[:size]
        return cls(size, classes, rows, state[SEEN].cpu().numpy().copy(), state[FULL].cpu().numpy() > 0)

    def state(self) -> Vectors:
        """As part of a client's state."""
        return {
            ROWS: torch.from_numpy(self.rows),
            SEEN: torch.from_numpy(self.seen),
            FULL: torch.from_numpy(self.full.astype(np.int64)),
        }

    def after(self, rows: Integers, labels: NDArray[np.int64], rng: np.random.Generator) -> "Memory":
        """The memory after the client has seen these rows, `labels` being those of all rows there are."""
        kept, seen, full = self.rows.tolist(), self.seen.copy(), self.full.copy()
        stored = np.bincount(labels[self.rows], minlength=self.classes)
        fresh = rows[~np.isin(rows, self.rows)]
        for row in rng.permutation(fresh).tolist():
            own = int(labels[row])
            seen[own] += 1
            if len(kept) < self.size:
                kept.append(row)
                stored[own] += 1
            else:
                largest = int(stored.argmax())
                full[largest] = True
                victim = largest if not full[own] else own
                if full[own] and rng.random() >= stored[own] / seen[own]:
                    continue
                places = [place for place, one in enumerate(kept) if labels[one] == victim]
                if not places:
                    continue
                kept[places[int(rng.integers(len(places)))]] = row
                stored[victim] -= 1
                stored[own] += 1
        return Memory(self.size, self.classes, np.array(kept, np.int64), seen, full)

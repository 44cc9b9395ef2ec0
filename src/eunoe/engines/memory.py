"""What a client remembers from round to round besides its method's state: replay samples and label counts.

All of it is part of the client's state; it never leaves the client and costs no traffic.

Replay: a client keeps some of the samples it has seen and trains on them beside those it has now. Which
samples stay is decided by class-balanced reservoir sampling (Chrysakis and Moens, 2020,
https://proceedings.mlr.press/v119/chrysakis20a.html): while the memory has room every sample is stored; then
a sample of a class that was never the largest one in memory takes the place of a random sample of the
largest class, and one of another class takes the place of a random one of its own with probability
(stored of its class) / (seen of its class). The state has row numbers, the labels seen, and whether a class
was ever the largest.

Label counts: with `stale_counts = n` a client uses its counts of n participations ago, or of its first one
while there were fewer. With `training.label_counts = "seen"` its loss uses the largest count of each class
that it ever used: a class that is gone stays in the softmax of wsm, one that it never had does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from eunoe.core.flat_model import Vectors

Integers = NDArray[np.int64]
# Names that no method gives to its own state.
ROWS, SEEN, FULL = "replay rows", "replay seen", "replay full"
EARLIER, MOST = "label counts earlier", "label counts most"


@dataclass(frozen=True, kw_only=True)
class MemoryOptions:
    """What clients remember: samples to replay, and label counts of earlier participations."""

    replay: int = 0
    stale_counts: int = 0
    seen_labels: bool = False

    @property
    def label_counts(self) -> bool:
        """Whether clients use label counts of earlier rounds."""
        return self.stale_counts > 0 or self.seen_labels


@dataclass(frozen=True)
class Replay:
    """A client's memory: rows, samples seen by class, and which classes were ever the largest in it."""

    size: int
    rows: Integers
    seen: Integers
    full: NDArray[np.bool_]

    @classmethod
    def load(cls, state: Mapping[str, Tensor], size: int, classes: int) -> "Replay":
        """Read the memory from a client's state; it is empty before the first participation."""
        if ROWS not in state:
            return cls(size, np.empty(0, np.int64), np.zeros(classes, np.int64), np.zeros(classes, np.bool_))
        # A resumed run may have another size.
        rows = state[ROWS].cpu().numpy()[:size]
        return cls(size, rows, state[SEEN].cpu().numpy().copy(), state[FULL].cpu().numpy() > 0)

    def state(self) -> Vectors:
        """Return the memory as part of a client's state."""
        full = torch.from_numpy(self.full.astype(np.int64))
        return {ROWS: torch.from_numpy(self.rows), SEEN: torch.from_numpy(self.seen), FULL: full}

    def after(self, rows: Integers, labels: NDArray[np.int64], rng: np.random.Generator) -> "Replay":
        """Return the memory after the client has seen these rows; `labels` are those of all rows."""
        stored, seen, full = self.rows.tolist(), self.seen.copy(), self.full.copy()
        counts = np.bincount(labels[self.rows], minlength=len(seen))
        fresh = rows[~np.isin(rows, self.rows)]
        for row in rng.permutation(fresh).tolist():
            label = int(labels[row])
            seen[label] += 1
            if len(stored) < self.size:
                stored.append(row)
                counts[label] += 1
            else:
                largest = int(counts.argmax())
                full[largest] = True
                victim = largest if not full[label] else label
                if full[label] and rng.random() >= counts[label] / seen[label]:
                    continue
                places = [place for place, other in enumerate(stored) if labels[other] == victim]
                if not places:
                    continue
                stored[places[int(rng.integers(len(places)))]] = row
                counts[victim] -= 1
                counts[label] += 1
        return Replay(self.size, np.array(stored, np.int64), seen, full)


@dataclass(frozen=True)
class LabelHistory:
    """The counts of up to `lag` participations, the oldest first, and the largest of each class."""

    lag: int
    earlier: Tensor
    most: Tensor

    @classmethod
    def load(cls, state: Mapping[str, Tensor], lag: int, classes: int) -> "LabelHistory":
        """Read the history from a client's state; it is empty before the first participation."""
        if MOST not in state:
            return cls(lag, torch.zeros(0, classes, dtype=torch.int64), torch.zeros(classes).long())
        return cls(lag, state[EARLIER].cpu().view(-1, classes), state[MOST].cpu())

    def known(self, now: Tensor) -> Tensor:
        """Return the counts that the client uses in a round with these counts."""
        return self.earlier[0] if len(self.earlier) else now

    def seen(self, now: Tensor) -> Tensor:
        """Return the largest count of each class that the client ever used."""
        return torch.maximum(self.most, self.known(now))

    def after(self, now: Tensor) -> "LabelHistory":
        """Return the history after a participation with these counts."""
        longer = torch.cat([self.earlier, now[None]])
        return LabelHistory(self.lag, longer[max(0, len(longer) - self.lag) :], self.seen(now))

    def state(self) -> Vectors:
        """Return the history as part of a client's state."""
        return {EARLIER: self.earlier.flatten(), MOST: self.most}


class ClientMemory(NamedTuple):
    """What a client remembers at the start of a round; None if it does not keep such things."""

    replay: Replay | None = None
    history: LabelHistory | None = None


def load_memory(state: Mapping[str, Tensor], options: MemoryOptions, classes: int) -> ClientMemory:
    """Read a client's replay samples and label history from its state."""
    return ClientMemory(
        Replay.load(state, options.replay, classes) if options.replay else None,
        LabelHistory.load(state, options.stale_counts, classes) if options.label_counts else None,
    )

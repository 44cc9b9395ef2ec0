"""What a client knows of its label counts from earlier rounds, as part of its state.

Under `stale_counts = n` it goes by its counts of n participations ago, or of its first one while there were
fewer. Under `training.label_counts = "seen"` its loss counts of each class the most that it ever went by: a
class that is gone stays in the softmax of wsm, one that it never had does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from eunoe.core.flat_model import Vectors

# Names that no method gives to its own state.
EARLIER, MOST = "label counts earlier", "label counts most"


@dataclass(frozen=True)
class LabelHistory:
    """The counts of up to `lag` participations, the oldest first, and the most of each class."""

    lag: int
    earlier: Tensor
    most: Tensor

    @classmethod
    def of(cls, state: Mapping[str, Tensor], lag: int, classes: int) -> "LabelHistory":
        """The history in a client's state; an empty one before its first participation."""
        if MOST not in state:
            return cls(lag, torch.zeros(0, classes, dtype=torch.int64), torch.zeros(classes).long())
        return cls(lag, state[EARLIER].cpu().view(-1, classes), state[MOST].cpu())

    def known(self, now: Tensor) -> Tensor:
        """The counts that the client goes by, given those of this round."""
        return self.earlier[0] if len(self.earlier) else now

    def seen(self, now: Tensor) -> Tensor:
        """The most of each class that it ever went by."""
        return torch.maximum(self.most, self.known(now))

    def after(self, now: Tensor) -> "LabelHistory":
        """The history after a participation with these counts."""
        longer = torch.cat([self.earlier, now[None]])
        return LabelHistory(self.lag, longer[max(0, len(longer) - self.lag) :], self.seen(now))

    def state(self) -> Vectors:
        """As part of a client's state."""
        return {EARLIER: self.earlier.flatten(), MOST: self.most}

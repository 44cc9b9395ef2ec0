"""A federation that changes over the rounds, in one of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from torch import Tensor

from eunoe.data.checks import Integers
from eunoe.data.federation import Federation, Part


def in_round(federation: Federation, round: int, remembering: bool = False) -> Federation:
    """Return the federation in a round; with `remembering`, clients may remember rows of earlier rounds."""
    if isinstance(federation, FederationInRound) and federation.round == round:
        return federation
    if federation.changes is None and not remembering:
        return federation
    return FederationInRound.of(federation, round)


@dataclass(frozen=True, repr=False, kw_only=True)
class FederationInRound(Federation):
    """A federation in one round: its training samples, feature shift and clients.

    Validation and test parts do not change.
    """

    round: int
    whole: Federation
    # Rows of earlier rounds that clients remember, besides those of this round.
    remembered: dict[int, Integers] = field(default_factory=dict)
    # Label counts that clients use instead of this round's, and the largest of each class so far.
    known: dict[int, Tensor] = field(default_factory=dict)
    seen: dict[int, Tensor] = field(default_factory=dict)
    _rows: dict[int, Integers] = field(default_factory=dict)

    @classmethod
    def of(cls, whole: Federation, round: int) -> "FederationInRound":
        """Return a federation in a round."""
        whole = whole.whole if isinstance(whole, FederationInRound) else whole
        values = {field.name: getattr(whole, field.name) for field in fields(Federation)}
        if whole.shift is not None and whole.changes is not None:
            strength = whole.shift.strength * whole.changes.shift(round)
            values["shift"] = whole.shift.model_copy(update={"strength": strength}) if strength else None
        federation = cls(**values, round=round, whole=whole)
        # Shared, since it is measured on all data.
        vars(federation)["preprocess"] = whole.preprocess
        return federation

    def trained_rows(self, client: int) -> Integers:
        rows, remembered = self.rows(client), self.remembered.get(client)
        return rows if remembered is None else np.concatenate([rows, remembered])

    def rows(self, client: int, part: Part = "train") -> Integers:
        if part != "train" or self.changes is None:
            return super().rows(client, part)
        if client not in self._rows:
            self._rows[client] = self.changes.rows(client, self.round, super().rows(client))
        return self._rows[client]

    def counts(self, client: int, part: Part = "train") -> Tensor:
        if part == "train" and client in self.known:
            return self.known[client]
        return super().counts(client, part)

    def counts_now(self, client: int) -> Tensor:
        """Return the label counts of a client's training samples in this round."""
        return super().counts(client)

    def size(self, client: int) -> int:
        return len(self.rows(client))

    def sizes_of(self, clients: Sequence[int] | Integers) -> Integers:
        return np.array([self.size(int(client)) for client in clients], np.int64)

    def present(self, client: int) -> bool:
        changes = self.changes
        return changes is None or (changes.present(client, self.round) and self.size(client) > 0)

"""A federation that changes over the rounds, in one of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np

from eunoe.data.checks import Integers
from eunoe.data.federation import Federation, Part


def in_round(federation: Federation, round: int) -> Federation:
    """Return the federation in a round."""
    if isinstance(federation, FederationInRound) and federation.round == round:
        return federation
    if federation.changes is None:
        return federation
    return FederationInRound.of(federation, round)


@dataclass(frozen=True, repr=False, kw_only=True)
class FederationInRound(Federation):
    """A federation in one round: its training samples, feature shift and clients.

    Validation and test parts do not change.
    """

    round: int
    whole: Federation
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

    def rows(self, client: int, part: Part = "train") -> Integers:
        if part != "train" or self.changes is None:
            return super().rows(client, part)
        if client not in self._rows:
            self._rows[client] = self.changes.rows(client, self.round, super().rows(client))
        return self._rows[client]

    def size(self, client: int) -> int:
        return len(self.rows(client))

    def sizes_of(self, clients: Sequence[int] | Integers) -> Integers:
        return np.array([self.size(int(client)) for client in clients], np.int64)

    def present(self, client: int) -> bool:
        changes = self.changes
        return changes is None or (changes.present(client, self.round) and self.size(client) > 0)

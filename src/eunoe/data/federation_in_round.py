"""A federation that changes with the rounds, as it is in one of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields

import numpy as np
from torch import Tensor

from eunoe.data.federation import Federation, Integers, Part


def in_round(federation: Federation, round: int, remembering: bool = False) -> Federation:
    """The federation as it is in a round, in which clients may remember rows of earlier ones."""
    if isinstance(federation, FederationInRound) and federation.round == round:
        return federation
    if federation.changes is None and not remembering:
        return federation
    return FederationInRound.of(federation, round)


@dataclass(frozen=True, repr=False, kw_only=True)
class FederationInRound(Federation):
    """A federation that changes, as it is in one round: other training samples, shift and clients.

    Validation and test parts are those of the whole run.
    """

    round: int
    whole: Federation
    # Rows that clients have kept of earlier rounds, besides those that they have now.
    remembered: dict[int, Integers] = field(default_factory=dict)
    # Label counts that clients go by instead of this round's, and the most of each class that they ever had.
    known: dict[int, Tensor] = field(default_factory=dict)
    seen: dict[int, Tensor] = field(default_factory=dict)
    _rows: dict[int, Integers] = field(default_factory=dict)

    @classmethod
    def of(cls, whole: Federation, round: int) -> "FederationInRound":
        """The federation in a round."""
        whole = whole.whole if isinstance(whole, FederationInRound) else whole
        values = {one.name: getattr(whole, one.name) for one in fields(Federation)}
        if whole.shift is not None and whole.changes is not None:
            strength = whole.shift.strength * whole.changes.shift(round)
            values["shift"] = whole.shift.model_copy(update={"strength": strength}) if strength else None
        made = cls(**values, round=round, whole=whole)
        # Measured on the whole data.
        vars(made)["preprocess"] = whole.preprocess
        return made

    def trained_rows(self, client: int) -> Integers:
        kept = self.remembered.get(client)
        return self.rows(client) if kept is None else np.concatenate([self.rows(client), kept])

    def rows(self, client: int, part: Part = "train") -> Integers:
        if part != "train" or self.changes is None:
            return super().rows(client, part)
        if client not in self._rows:
            self._rows[client] = self.changes.rows(client, self.round, super().rows(client))
        return self._rows[client]

    def counts(self, client: int, part: Part = "train") -> Tensor:
        return (
            self.known[client] if part == "train" and client in self.known else super().counts(client, part)
        )

    def counts_now(self, client: int) -> Tensor:
        """How many training samples of each class a client has in this round, whatever it goes by."""
        return super().counts(client)

    def size(self, client: int) -> int:
        return len(self.rows(client))

    def sizes_of(self, clients: Sequence[int] | Integers) -> Integers:
        return np.array([self.size(int(client)) for client in clients], np.int64)

    def present(self, client: int) -> bool:
        changes = self.changes
        return changes is None or (changes.present(client, self.round) and self.size(client) > 0)

"""The options of secure aggregation."""

import math

from pydantic import Field, field_validator

from eunoe.config.options import Finite, Options
from eunoe.errors import InputError


class SecureAggregation(Options):
    """The server sees only sums over a round's clients, in fixed point; in a federation they are masked."""

    threshold: int | Finite = Field(
        0.6,
        description="Clients that must stay to the end of a round: a share of its clients (a float up to "
        "1.0) or a number (an integer), more than half.",
    )
    bound: Finite = Field(
        1e4, gt=0, description="Largest absolute value of anything that is summed; beyond it a client leaves."
    )
    bounds: dict[str, Finite] = Field({}, description="Other bounds, by what is summed.")
    max_samples: int | None = Field(
        None, ge=1, description="Most samples of any client; by default those of the partition's largest."
    )

    @field_validator("bounds")
    @classmethod
    def _positive(cls, value: dict[str, float]) -> dict[str, float]:
        for name, bound in value.items():
            if bound <= 0:
                raise ValueError(f"{name} = {bound:g} must be above 0")
        return value

    def least(self, participants: int) -> int:
        """The clients that must stay to the end of a round of so many."""
        if participants < 3:
            raise InputError(
                f"secure_aggregation hides a client among others, and {participants} take part in a round: "
                "raise participation to 3 or more clients"
            )
        given = self.threshold
        # Rounded first, since 0.7 * 10 may be a little above 7.
        count = given if isinstance(given, int) else math.ceil(round(given * participants, 9))
        if not participants < 2 * count <= 2 * participants:
            raise InputError(
                f"secure_aggregation.threshold = {given:g} is {count} of {participants} clients: it must be "
                f"more than half of them, {participants // 2 + 1} to {participants}"
            )
        return count

"""Probes: in which rounds clients' models are measured, by which metric and on which data."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from eunoe.config.options import Options, Whole


class Probe(Options):
    """A metric, the rounds at which it is measured, and the data."""

    metric: str = Field(
        description="What is measured: every local model on every client's data (client_matrix), per-class "
        "accuracy and loss before and after local training and merge (local_per_class), distances (drift), "
        "mean output probabilities (probability), or package.module:Name."
    )
    rounds: tuple[int, ...] = Field((), description="Rounds at which it is measured.")
    every: Whole = Field(0, ge=0, description="Measured every so many rounds; 0: not by this rule.")
    at: tuple[Annotated[float, Field(ge=0, le=1)], ...] = Field(
        (), description="Measured at these fractions of the run."
    )
    data: Literal["auto", "participants", "clients", "test"] = Field(
        "auto",
        description="Whose data the client matrix is on: the participants' validation parts, those of all "
        "clients, or the test set re-weighted to each participant's class mix; auto takes the last "
        "where a validation part has under 30 samples.",
    )
    samples: Whole = Field(1000, ge=1, description="Size of the class-balanced part of the test set it uses.")
    models: Whole = Field(10, ge=1, description="Maximum number of local models measured in a round.")

    @model_validator(mode="after")
    def _is_due_sometime(self) -> "Probe":
        if not (self.rounds or self.every or self.at):
            raise ValueError(f"the probe {self.metric!r} is never measured: set rounds, every or at")
        return self

    def due(self, round: int, rounds: int) -> bool:
        """Whether the probe is due in a round of a run with this many rounds."""
        fractions = {max(1, int(fraction * rounds + 0.5)) for fraction in self.at}
        return round in self.rounds or round in fractions or bool(self.every and round % self.every == 0)


_TENTHS = tuple(step / 10 for step in range(1, 11))
STANDARD = (
    Probe(metric="client_matrix", at=_TENTHS),
    Probe(metric="local_per_class", at=tuple(step / 20 for step in range(1, 21))),
    Probe(metric="drift", at=_TENTHS),
)

"""The options of differential privacy at the level of clients."""

import math

from pydantic import Field, model_validator

from eunoe.config.options import Finite, Options


class Privacy(Options):
    """Clip what each client sends and add Gaussian noise to the sum."""

    clip: float = Field(gt=0, description="Largest norm of all that a client sends; inf clips nothing.")
    noise: Finite = Field(
        ge=0, description="Standard deviation of the noise in the sum, as a multiple of clip."
    )
    delta: Finite = Field(gt=0, lt=1, description="The delta of the guarantee, below 1 / clients.")
    epsilon: Finite | None = Field(
        None, gt=0, description="Budget: the run ends before a round that would exceed it; by default none."
    )

    @model_validator(mode="after")
    def _bounded(self) -> "Privacy":
        if self.noise and math.isinf(self.clip):
            raise ValueError("noise is a multiple of clip: with clip = inf set noise = 0, or lower clip")
        if not self.noise and self.epsilon is not None:
            raise ValueError("noise = 0 guarantees nothing: leave epsilon out, or raise noise")
        return self

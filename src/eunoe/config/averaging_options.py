"""The options of averaging global models."""

from pydantic import Field, model_validator

from eunoe.config.options import Finite, Options


class Averaging(Options):
    """The mean of the global models is evaluated and exported; clients start from the newest one."""

    decay: Finite | None = Field(
        None, ge=0, lt=1, description="How much of the mean a round keeps; 0 is the newest model alone."
    )
    last: int | None = Field(
        None, ge=1, description="Average this many last models instead, all of which are kept in memory."
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> "Averaging":
        if (self.decay is None) == (self.last is None):
            raise ValueError("averaging takes one of decay (0.9, say) and last (a number of models)")
        return self

    def share(self, models: int) -> float:
        """The weight of the newest model in the mean of this many, by the decay."""
        decay = self.decay or 0.0
        return float((1 - decay) / (1 - decay**models))

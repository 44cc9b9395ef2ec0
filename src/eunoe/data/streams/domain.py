"""A feature shift that grows: the inputs of each client move away from the common ones, round by round."""

from pydantic import Field, PositiveInt, model_validator

from eunoe.data.streams.base import Changes, Stream, Timeline, phases_from
from eunoe.errors import InputError


class Domain(Stream, Changes):
    """The feature shift of the config grows linearly from none to its full strength."""

    start: PositiveInt | None = Field(
        None, description="The last round without shift; by default a third in."
    )
    end: PositiveInt | None = Field(
        None, description="The first round of full shift; by default two thirds in."
    )

    @model_validator(mode="after")
    def _in_order(self) -> "Domain":
        if self.start is not None and self.end is not None and self.end <= self.start:
            raise ValueError("end must be after start")
        return self

    def resolve(self, rounds: int) -> "Domain":
        start = self.start or max(1, rounds // 3)
        return self.model_copy(update={"start": start, "end": self.end or max(start + 1, 2 * rounds // 3)})

    def bind(self, timeline: Timeline) -> Changes:
        if timeline.federation.shift is None:
            raise InputError(
                "stream 'domain' needs a feature shift: set shift = { kind = \"rotation\", ... }"
            )
        return self

    def phases(self, rounds: int) -> tuple[int, ...]:
        start, end = self.start or 1, self.end or 2
        return phases_from((start + 1, end), rounds)

    def shift(self, round: int) -> float:
        start, end = self.start or 1, self.end or 2
        return min(1.0, max(0.0, (round - start) / (end - start)))

"""One loss in the first rounds and another one after them.

    loss of round t  =  first  if t <= rounds,  else  then

The WSM paper (https://arxiv.org/abs/2304.05260) supposes that the early rounds are a critical learning
period, in which WSM's advantage may have a lasting effect; a schedule tests that. The number of rounds is
absolute, so that a run that is resumed with more rounds repeats the earlier ones.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from torch import Tensor

from eunoe.config import registry
from eunoe.config.options import Named, Steps
from eunoe.losses.base import Loss


def _build(value: Any) -> Any:
    """Build a loss from its name, or from its name and options."""
    if not isinstance(value, str | Mapping):
        return value
    section = Named.model_validate(value)
    return registry.build("loss", section.name, section.options)


Inner = Annotated[Loss, BeforeValidator(_build)]


class Schedule(Loss, frozen=True):
    """One loss in the first rounds, then another; outside a run it is the first one."""

    first: Inner = Field("wsm", validate_default=True, description="Loss of the first rounds.")
    then: Inner = Field("ce", validate_default=True, description="Loss of the other rounds.")
    rounds: Steps = Field(25, ge=0, description="Number of rounds with the first loss.")

    def _check_options(self) -> None:
        for loss in (self.first, self.then):
            if "classification" not in loss.tasks:
                raise ValueError(f"a schedule supports losses of classification, not {type(loss).__name__}")

    def in_round(self, round: int) -> Loss:
        return (self.first if round <= self.rounds else self.then).in_round(round)

    def terms(self, counts: Tensor) -> Tensor:
        return self.first.terms(counts)

    def per_sample(self, logits: Tensor, labels: Tensor, terms: Tensor) -> Tensor:
        return self.first.per_sample(logits, labels, terms)

    def learns_from(self, counts: Tensor) -> bool:
        return self.first.learns_from(counts) and self.then.learns_from(counts)

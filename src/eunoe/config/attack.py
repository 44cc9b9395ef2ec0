"""The options of an attack: bad clients in a simulation."""

from typing import Literal

from pydantic import Field, model_validator

from eunoe.config.options import Finite, Options

# Attacks that `scale` makes stronger.
SCALED = ("sign_flip", "scaled", "noise", "size_lie", "upload_lie")


class Attack(Options):
    """Clients of a simulation that send something else than what they should."""

    name: Literal["label_flip", "sign_flip", "scaled", "noise", "size_lie", "nan", "upload_lie"] = Field(
        description="What bad clients do: train on labels counted from the end (label_flip); send minus "
        "`scale` times their change (sign_flip), `scale` times (scaled), or noise of `scale` times its norm "
        "(noise); claim `scale` times their samples (size_lie); send NaN (nan); multiply what they send "
        "besides weights by `scale` (upload_lie)."
    )
    share: Finite = Field(0.1, gt=0, lt=1, description="Share of all clients that are bad.")
    scale: Finite | None = Field(
        None, description="How strong it is, 10 by default; not for label_flip and nan."
    )

    @model_validator(mode="after")
    def _scale_does_something(self) -> "Attack":
        if self.scale is not None and self.name not in SCALED:
            raise ValueError(f"{self.name} has no scale: leave it out")
        if self.name == "size_lie" and self.scale is not None and self.scale < 1:
            raise ValueError("size_lie claims more samples: scale must be 1 or more")
        return self

    @property
    def strength(self) -> float:
        """The scale, or its default."""
        return 10.0 if self.scale is None else self.scale

"""The options of smaller updates."""

from typing import Literal

from pydantic import Field, model_validator

from eunoe.config.options import Finite, Options


class Compression(Options):
    """Send less of each change than all of it."""

    name: Literal["topk", "quantize"] = Field(
        description="What is sent: the entries that change most (topk), or all in few bits (quantize)."
    )
    share: Finite | None = Field(None, gt=0, le=1, description="Share of the entries that topk sends.")
    bits: Literal[2, 4, 8] | None = Field(None, description="Bits in which quantize sends an entry.")
    feedback: bool = Field(
        True, description="Whether a client adds what it did not send to its next change (error feedback)."
    )

    @model_validator(mode="after")
    def _of_its_kind(self) -> "Compression":
        wanted, other = ("share", "bits") if self.name == "topk" else ("bits", "share")
        if getattr(self, wanted) is None or getattr(self, other) is not None:
            example = "share (0.1, say)" if self.name == "topk" else "bits (2, 4 or 8)"
            raise ValueError(f"{self.name} takes {example} and not {other}")
        return self

    @property
    def sends_all(self) -> bool:
        """Whether nothing is left out."""
        return self.share == 1

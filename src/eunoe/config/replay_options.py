"""The options of replay."""

from pydantic import Field, PositiveInt

from eunoe.config.options import Options


class Replay(Options):
    """Samples of earlier rounds that a client keeps and trains on beside those it has now."""

    memory: PositiveInt = Field(200, le=10_000_000, description="How many samples a client keeps at most.")

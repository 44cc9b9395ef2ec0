"""A real Flower federation of Eunoe's methods, and forgetting measured in other people's Flower projects."""

from eunoe.flower.measure import measure

__all__ = ["measure"]

"""Eunoe's methods in a real Flower federation, and forgetting measured in existing Flower projects."""

from eunoe.flower.measure import measure

__all__ = ["measure"]

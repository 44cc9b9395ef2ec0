"""Data that change with time, on top of any partition."""

from eunoe.data.streams.base import Stream, Timeline

__all__ = ["Stream", "Timeline"]

"""Streams: data and clients that change over the rounds, on top of any partition.

`Stream` holds the options of a stream and `bind` returns its `Changes` for one federation.
"""

from eunoe.data.streams.base import Stream, Timeline

__all__ = ["Stream", "Timeline"]

"""Log records of one of several runs: taken where it runs, and given back under its title."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ROOT = logging.getLogger("eunoe")


class _Taking(logging.Handler):
    def __init__(self, take: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._take = take

    def emit(self, record: logging.LogRecord) -> None:
        self._take(record)


@contextmanager
def taken(take: Callable[[logging.LogRecord], None]) -> Iterator[None]:
    """Hand what the library logs to a function instead of the handlers that there are."""
    handlers, propagate = ROOT.handlers, ROOT.propagate
    ROOT.handlers, ROOT.propagate = [_Taking(take)], False
    try:
        yield
    finally:
        ROOT.handlers, ROOT.propagate = handlers, propagate


@contextmanager
def titled(title: str) -> Iterator[None]:
    """Begin what the library logs with a title."""
    handlers, propagate = ROOT.handlers, ROOT.propagate

    def again(record: logging.LogRecord) -> None:
        taking = ROOT.handlers
        ROOT.handlers, ROOT.propagate = handlers, propagate
        try:
            give_back(title, record.name, record.levelno, record.getMessage())
        finally:
            ROOT.handlers, ROOT.propagate = taking, False

    with taken(again):
        yield


def give_back(title: str, name: str, level: int, message: str) -> None:
    """Log what a run logged, under its title."""
    logging.getLogger(name).log(level, "%s: %s", title, message)

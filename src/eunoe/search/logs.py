"""Log records of parallel runs: captured in the process of a run, logged again under its title."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

ROOT = logging.getLogger("eunoe")


class _Capture(logging.Handler):
    def __init__(self, consume: Callable[[logging.LogRecord], None]) -> None:
        super().__init__()
        self._consume = consume

    def emit(self, record: logging.LogRecord) -> None:
        self._consume(record)


@contextmanager
def captured(consume: Callable[[logging.LogRecord], None]) -> Iterator[None]:
    """Pass the library's log records to a function instead of the installed handlers."""
    handlers, propagate = ROOT.handlers, ROOT.propagate
    ROOT.handlers, ROOT.propagate = [_Capture(consume)], False
    try:
        yield
    finally:
        ROOT.handlers, ROOT.propagate = handlers, propagate


@contextmanager
def titled(title: str) -> Iterator[None]:
    """Prefix the library's log messages with a title."""
    handlers, propagate = ROOT.handlers, ROOT.propagate

    def again(record: logging.LogRecord) -> None:
        capturing = ROOT.handlers
        ROOT.handlers, ROOT.propagate = handlers, propagate
        try:
            relog(title, record.name, record.levelno, record.getMessage())
        finally:
            ROOT.handlers, ROOT.propagate = capturing, False

    with captured(again):
        yield


def relog(title: str, name: str, level: int, message: str) -> None:
    """Log a record of a run again, under its title."""
    logging.getLogger(name).log(level, "%s: %s", title, message)

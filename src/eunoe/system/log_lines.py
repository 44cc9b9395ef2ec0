"""Log records of the library: as lines of text, with a title, or through a pipe."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from logging.handlers import QueueHandler
from typing import Any

from eunoe.text import one_line


class _Lines(logging.Handler):
    def __init__(self, write: Callable[[str], object]) -> None:
        super().__init__()
        self._write = write

    def emit(self, record: logging.LogRecord) -> None:
        level = f"{record.levelname.lower()}: " if record.levelno >= logging.WARNING else ""
        self._write(f"{level}{one_line(record.getMessage())}")


@contextmanager
def log_lines(write: Callable[[str], object]) -> Iterator[None]:
    """Pass the library's log records from INFO up to a function, one line each: "warning: ..."."""
    library, lines = logging.getLogger("eunoe"), _Lines(write)
    level = library.level
    library.setLevel(logging.INFO)
    library.addHandler(lines)
    try:
        yield
    finally:
        library.removeHandler(lines)
        library.setLevel(level)


class PipeHandler(QueueHandler):
    """Sends log records through a pipe."""

    def enqueue(self, record: logging.LogRecord) -> None:
        self.queue.send(record)  # type: ignore[attr-defined]


@contextmanager
def titled_logs(title: str | None) -> Iterator[None]:
    """Prefix the library's log messages with a title; without one, with the name of the thread."""
    make_record = logging.getLogRecordFactory()

    def make_titled(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = make_record(*args, **kwargs)
        if record.name.startswith("eunoe."):
            record.msg, record.args = f"{title or record.threadName}: {record.getMessage()}", ()
        return record

    logging.setLogRecordFactory(make_titled)
    try:
        yield
    finally:
        logging.setLogRecordFactory(make_record)

"""Log records of the library as lines of text."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

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

"""Memory: what was wanted where it is refused; freed memory is kept for the next step of a worker."""

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from eunoe.errors import EunoeError, InputError, first_line

# glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# Earlier versions refuse a threshold above 32 MB.
_ALL, _MOST = 1 << 30, 1 << 25


def keep_freed_memory() -> None:
    """Keep freed memory for the next allocation instead of returning it to the system.

    Every local step allocates the same memory as the one before. If it is returned in between, every client
    pays thousands of page faults, a tenth of LeNet's training time. It holds for the whole process and
    cannot be undone, so only our own worker processes use it. C libraries other than glibc do not have it.
    """
    with suppress(AttributeError, OSError):
        choose = ctypes.CDLL(None).mallopt
        _ = choose(_MMAP_THRESHOLD, _ALL) or choose(_MMAP_THRESHOLD, _MOST)
        choose(_TRIM_THRESHOLD, _ALL)


@contextmanager
def within_memory(what: str, kind: type[EunoeError] = InputError) -> Iterator[None]:
    """Turn a refused allocation of Python, NumPy or torch into an error of one line that says how much."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if (wanted := refused(error)) is None:
            raise
        raise kind(f"{what} needs more memory than there is{wanted}") from error


def refused(error: BaseException) -> str | None:
    """How much memory was wanted, if an error is a refused allocation, else None."""
    if isinstance(error, MemoryError):
        # NumPy says how much, Python does not.
        return f" ({first_line(error)})" if str(error) else ""
    if not re.search(r"allocate memory|not enough memory|out of memory|alloc_cpu", str(error)):
        return None
    wanted = re.search(r"tried to allocate ([\d.]+ ?\w+)", str(error), re.IGNORECASE)
    return f" ({wanted[1]} were wanted)" if wanted else f" ({first_line(error)})"

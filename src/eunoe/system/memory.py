"""Memory: one-line errors for failed allocations, and reuse of freed memory in workers."""

import ctypes
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from eunoe.errors import EunoeError, InputError, first_line
from eunoe.system.machine import memory

# glibc's M_TRIM_THRESHOLD and M_MMAP_THRESHOLD.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# Earlier versions refuse a threshold above 32 MB.
_ALL, _MOST = 1 << 30, 1 << 25
# Compressed data beyond this size may expand to this many times its bytes.
_LARGE, _EXPANSION = 1 << 29, 100


def keep_freed_memory() -> None:
    """Keep freed memory for the next allocation instead of returning it to the system.

    Every local step allocates the same memory as the one before. Returning it in between costs thousands of
    page faults per client, a tenth of LeNet's training time. This affects the whole process and cannot be
    undone, so only worker processes use it. It has no effect with C libraries other than glibc.
    """
    with suppress(AttributeError, OSError):
        choose = ctypes.CDLL(None).mallopt
        _ = choose(_MMAP_THRESHOLD, _ALL) or choose(_MMAP_THRESHOLD, _MOST)
        choose(_TRIM_THRESHOLD, _ALL)


def check_free(bytes: int, what: str) -> None:
    """Raise InputError if the free memory, where it is known, does not hold so many bytes."""
    _, free = memory()
    if free and bytes > free:
        raise InputError(f"{what} need {bytes / 1e9:.1f} GB of memory, and {free / 1e9:.1f} GB are free")


def check_expansion(bytes: int, stored: int, what: str) -> None:
    """Raise InputError if `stored` compressed bytes expand to so many that they are made to fill memory."""
    if bytes > max(_LARGE, _EXPANSION * stored):
        raise InputError(f"{what} expands to {_EXPANSION} times its size or more: store it uncompressed")


@contextmanager
def within_memory(what: str, kind: type[EunoeError] = InputError) -> Iterator[None]:
    """Convert a failed allocation of Python, NumPy or torch to an error of one line with the amount."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        text = str(error)
        torch_failed = re.search(r"allocate memory|not enough memory|out of memory|alloc_cpu", text)
        if not (torch_failed or isinstance(error, MemoryError)):
            raise
        wanted = re.search(r"tried to allocate ([\d.]+ ?\w+)", text, re.IGNORECASE)
        amount = f"{wanted[1]} requested" if wanted else first_line(error)
        # Python's own MemoryError has no text.
        raise kind(f"{what} needs more memory than available" + (f" ({amount})" if text else "")) from error

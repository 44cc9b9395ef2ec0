"""Memory of worker processes: freed memory is kept for the next step."""

import ctypes
from contextlib import suppress

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

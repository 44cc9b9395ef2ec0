"""Memory of worker processes: freed memory is kept for the next step."""

import ctypes
from contextlib import suppress

# glibc's names for the most that is kept free, and for the size from which a piece has pages of its own.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# Earlier versions refuse a threshold above 32 MB.
_ALL, _MOST = 1 << 30, 1 << 25


def keep_freed_memory() -> None:
    """Keep what is freed for what is asked for next, instead of giving it back to the system.

    A local step asks for the same memory as the one before. If it is returned in between, every client pays
    thousands of page faults, a tenth of LeNet's training time. The setting is for the whole process and
    cannot be undone, so only our own worker processes use it. C libraries other than glibc do not have it.
    """
    with suppress(AttributeError, OSError):
        choose = ctypes.CDLL(None).mallopt
        _ = choose(_MMAP_THRESHOLD, _ALL) or choose(_MMAP_THRESHOLD, _MOST)
        choose(_TRIM_THRESHOLD, _ALL)

"""How a process that only trains holds on to its memory."""

import ctypes
from contextlib import suppress

# glibc's names for the most that is kept free, and for the size from which a piece has pages of its own.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
# Earlier versions refuse a threshold above 32 MB.
_ALL, _MOST = 1 << 30, 1 << 25


def keep_freed_memory() -> None:
    """Keep what is freed for what is asked for next, instead of giving it back to the system.

    A local step asks for the same memory as the one before. Given back in between, it comes with thousands
    of page faults for each client, a tenth of the time that LeNet trains. It holds for the whole process
    and cannot be taken back, so only processes of our own are told to. Other C libraries have no such choice.
    """
    with suppress(AttributeError, OSError):
        choose = ctypes.CDLL(None).mallopt
        _ = choose(_MMAP_THRESHOLD, _ALL) or choose(_MMAP_THRESHOLD, _MOST)
        choose(_TRIM_THRESHOLD, _ALL)

"""An exclusive lock on an open file, which ends with the process."""

import os
import sys
from typing import IO, Any
from weakref import WeakSet

if sys.platform == "win32":
    import msvcrt
else:
    import fcntl

_locked: WeakSet[IO[Any]] = WeakSet()


def lock_file(file: IO[Any], wait: bool = False) -> None:
    """Lock a file; raise an OSError if another process has locked it and `wait` is false."""
    if sys.platform == "win32":
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_LOCK if wait else msvcrt.LK_NBLCK, 1)
    else:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    _locked.add(file)


if hasattr(os, "register_at_fork"):
    # Forked processes must not hold a lock: they may outlive a killed run.
    os.register_at_fork(after_in_child=lambda: [file.close() for file in _locked])

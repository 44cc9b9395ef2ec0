"""An exclusive lock on a file, which ends with the process."""

from pathlib import Path

from filelock import FileLock

from eunoe.system.files import check_regular


def lock_file(path: Path, wait: bool = False) -> FileLock:
    """Lock a file until `release`; raise TimeoutError if another process has it and `wait` is false.

    Processes that are forked later do not hold the lock: they may outlive a killed run.
    """
    if path.exists():
        check_regular(path)
    lock = FileLock(path, timeout=-1 if wait else 0, thread_local=False)
    lock.acquire()
    return lock

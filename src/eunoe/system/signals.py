"""Signals: SIGTERM ends a run like Ctrl-C, between two updates; workers end with their parent."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class _Interrupts:
    """Raises KeyboardInterrupt on a signal: at once, or at the end of an `uninterrupted` block."""

    def __init__(self) -> None:
        self.held = self.waiting = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.held and not self.waiting:
            self.waiting = True
        else:
            # A second signal does not wait.
            raise KeyboardInterrupt


_interrupts = _Interrupts()


@contextmanager
def interruptible() -> Iterator[None]:
    """Make SIGTERM end a run like Ctrl-C, and delay both until the end of `uninterrupted` blocks."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, _interrupts)}
    # A user's own handler is not replaced, nor is an ignored Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        before[signal.SIGINT] = signal.signal(signal.SIGINT, _interrupts)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Delay a first interrupt until the end of the block; a second one ends it."""
    if threading.current_thread() is not threading.main_thread() or _interrupts.held:
        yield
        return
    _interrupts.held, _interrupts.waiting = True, False
    try:
        yield
    finally:
        _interrupts.held = False
    if _interrupts.waiting:
        raise KeyboardInterrupt


def end_with_parent() -> None:
    """Make this process end when its parent does, even by kill -9."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        parent.join()
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()

"""SIGTERM ends a run as Ctrl-C does, and processes end with the one that started them."""

import signal
import subprocess
import sys
import threading

import pytest

from eunoe.system.signals import interruptible, uninterrupted
from tests.waiting import PATIENCE


def test_sigterm_is_a_keyboard_interrupt_inside_only() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interruptible():
        # Python runs the handler before the call returns.
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_waits_for_the_end_of_a_block(number: int) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interruptible():  # noqa: PT012 (the order is what is tested)
        with uninterrupted():
            signal.raise_signal(number)
            with uninterrupted():
                done.append("inside")
            done.append("to the end")
        done.append("not reached")
    assert done == ["inside", "to the end"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_second_interrupt_does_not_wait() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interruptible(), uninterrupted():  # noqa: PT012 (as above)
        signal.raise_signal(signal.SIGINT)
        done.append("waited")
        signal.raise_signal(signal.SIGINT)
        done.append("not reached")
    assert done == ["waited"]
    # Nothing is left over for the next block.
    with interruptible(), uninterrupted():
        pass


def test_a_handler_of_ones_own_stays() -> None:
    seen = list[int]()
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with interruptible():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]


def test_in_another_thread_nothing_is_changed() -> None:
    seen = []

    def inside() -> None:
        with interruptible():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [signal.getsignal(signal.SIGTERM)]


def test_a_worker_does_not_outlive_its_parent() -> None:
    code = (
        "import multiprocessing, os, signal, time\n"
        "from eunoe.system.signals import end_with_parent\n"
        "def work():\n"
        "    end_with_parent()\n"
        "    time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.get_context('fork').Process(target=work).start()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # The worker holds the other end of the pipe, which ends when both processes have.
    outcome = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=PATIENCE)
    assert outcome.returncode == -signal.SIGKILL

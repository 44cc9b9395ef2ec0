"""SIGTERM ends a run as Ctrl-C does, and processes end with the one that started them."""

import signal
import subprocess
import sys
import threading

import pytest

from eunoe.system.signals import interruptible


def test_sigterm_is_a_keyboard_interrupt_inside_only() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt), interruptible():
        # Python runs the handler before the call returns.
        signal.raise_signal(signal.SIGTERM)
    assert signal.getsignal(signal.SIGTERM) is before


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
        "from eunoe.system.signals import end_with_the_parent\n"
        "def work():\n"
        "    end_with_the_parent()\n"
        "    time.sleep(600)\n"
        "if __name__ == '__main__':\n"
        "    multiprocessing.get_context('fork').Process(target=work).start()\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    # The worker holds the other end of the pipe, which ends when both processes have.
    outcome = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, timeout=120)
    assert outcome.returncode == -signal.SIGKILL

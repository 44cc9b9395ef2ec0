"""Settings of all tests: one thread, repeatable examples, and no test that is skipped unnoticed in CI."""

import os
import signal
from collections import Counter
from collections.abc import Generator

import hypothesis
import pytest

# Some virtual machines announce AMX units and end a process that uses them; torch asks once, when it starts.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX512_CORE_FP16")

import torch

hypothesis.settings.register_profile("eunoe", derandomize=True, deadline=None, max_examples=40)
hypothesis.settings.load_profile("eunoe")
torch.set_num_threads(1)
# A shell lets what it starts in the background ignore Ctrl-C, and so would every run that a test interrupts.
signal.signal(signal.SIGINT, signal.default_int_handler)

skipped: Counter[str] = Counter()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        skipped[reason.removeprefix("Skipped: ")] += 1


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> Generator[None]:
    """Print after everything else which tests were skipped and why; in CI that is a failure."""
    yield
    if skipped and not hasattr(session.config, "workerinput"):
        print(*(f"{count} tests skipped: {reason}" for reason, count in skipped.items()), sep="\n")
        if os.environ.get("CI"):
            print("skipped tests count as failures in CI")
            session.exitstatus = 1

"""Settings of all tests: one thread, repeatable examples, and no test that is skipped unnoticed in CI."""

import os
import signal

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

skipped: list[str] = []


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.skipped and not hasattr(report, "wasxfail"):
        skipped.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if os.environ.get("CI") and skipped:
        print(f"\nskipped in CI, which counts as a failure: {', '.join(skipped)}")
        session.exitstatus = 1

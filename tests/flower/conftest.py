"""Shared by the tests of federations: a small data set, a fake clock, and a fake Flower task."""

import time
from pathlib import Path

import pytest

pytest.importorskip("flwr")


class FakeTime:
    """The part of `time` that the server uses; time passes only while the server sleeps."""

    strftime = staticmethod(time.strftime)

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def server_process(monkeypatch):
    """Let messages be made here as in a ServerApp, with a clock that does not depend on the machine."""
    from flwr.supercore.task_identity import TaskIdentity

    from eunoe.flower import roster

    for name in ("task_id", "run_id", "node_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 1)
    monkeypatch.setattr(roster, "POLL_SECONDS", 0.1)
    monkeypatch.setattr(roster, "time", FakeTime())


@pytest.fixture(scope="session")
def some_digits(tmp_path_factory) -> Path:
    """A part of the digits as a file, since every message's process would load them again."""
    from eunoe.data.loading import load
    from eunoe.data.sources.npz import write_npz

    digits, path = load("digits"), tmp_path_factory.mktemp("data") / "some.npz"
    arrays = {"x_train": digits.train.x[:400], "y_train": digits.train.y[:400]}
    arrays |= {"x_test": digits.test.x[:100], "y_test": digits.test.y[:100]}
    write_npz(path, {name: value.numpy() for name, value in arrays.items()})
    return path

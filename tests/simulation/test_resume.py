"""Real kills of the real command: whatever the moment, going on gives the same bits."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from eunoe.simulation.run import Run
from eunoe.store.checkpoints import list_checkpoints
from tests.faults import results
from tests.waiting import PATIENCE, until

ROUNDS = 12
SETTINGS = [
    f"rounds={ROUNDS}",
    "participation=6",
    "training.epochs=2",
    "checkpoint_seconds=0",
    "method.name=tests.faults:Faulty",
    # Long enough for a signal to meet a round in its midst.
    "method.pause=0.02",
]
# What a client has not sent is lost or doubled if its state is.
COMPRESSED = ["compress.name=topk", "compress.share=0.2"]
# Both are in the run state; the private parts are also in the clients' states.
OWN_AND_STALE = ['private.names=["classifier"]', "private.start=mean", "staleness.max=2", "probes=[]"]


def start(folder: Path, engine: str, options: list[str]) -> subprocess.Popen[str]:
    """Begin a run, or go on with it if it has begun."""
    begun = (folder / "config.toml").exists()
    settings = [*SETTINGS, *options, f"method.last_round={folder.with_name('last_round')}"]
    set_all = [part for setting in settings for part in ("--set", setting)]
    arguments = ["--resume", folder] if begun else ["--out", folder, "--engine", engine, *set_all]
    return subprocess.Popen(
        [sys.executable, "-m", "eunoe", "run", *arguments],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["src", "."]), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def finish(folder: Path, engine: str, options: list[str] = COMPRESSED) -> str:
    """Let a run finish; return its output."""
    allow(folder, ROUNDS)
    process = start(folder, engine, options)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, output
    return output


def allow(folder: Path, rounds: int) -> None:
    """Let clients begin rounds up to this one, and wait before the next."""
    folder.with_name("last_round").write_text(str(rounds))


def rounds_done(folder: Path) -> int:
    path = folder / "metrics.jsonl"
    return len(path.read_bytes().splitlines()) if path.exists() else 0


def stop(
    folder: Path, engine: str, after: int, delay: float, number: int, options: list[str] = COMPRESSED
) -> tuple[int, str]:
    """Start a run and send it a signal some time after a round; return its exit code and output."""
    allow(folder, after + 2)
    process = start(folder, engine, options)
    until(lambda: rounds_done(folder) >= after or process.poll() is not None)
    time.sleep(delay)
    process.send_signal(number)
    allow(folder, ROUNDS)
    output, _ = process.communicate(timeout=PATIENCE)
    return process.returncode, output


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calm") / "run"
    finish(folder, "serial")
    return folder


@pytest.mark.parametrize("engine", [pytest.param("serial", marks=pytest.mark.slow), "process"])
def test_a_run_killed_at_random_moments_ends_with_the_same_bits(
    calm: Path, tmp_path: Path, engine: str
) -> None:
    rng = np.random.default_rng(1)
    for after in (1, 4, 7):
        code, _ = stop(tmp_path / "run", engine, after, rng.uniform(0, 0.3), signal.SIGKILL)
        assert code == -signal.SIGKILL
    finish(tmp_path / "run", engine)
    assert results(Run(tmp_path / "run")) == results(Run(calm))


def test_private_parts_and_earlier_models_survive_a_kill(tmp_path: Path) -> None:
    for name in ("calm", "killed"):
        (tmp_path / name).mkdir()
    calm, killed = tmp_path / "calm" / "run", tmp_path / "killed" / "run"
    finish(calm, "serial", OWN_AND_STALE)
    code, _ = stop(killed, "process", 5, 0.1, signal.SIGKILL, OWN_AND_STALE)
    assert code == -signal.SIGKILL
    finish(killed, "process", OWN_AND_STALE)
    assert results(Run(killed)) == results(Run(calm))


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_an_interrupted_run_prints_how_to_resume(calm: Path, tmp_path: Path, number: int) -> None:
    folder = tmp_path / "run"
    code, output = stop(folder, "process", 4, 0.05, number)
    assert code == 130
    assert f"--resume {folder}" in output.replace("\n", "")
    assert Run(folder).status["state"] == "interrupted"
    finish(folder, "process")
    assert Run(folder).finished
    assert results(Run(folder)) == results(Run(calm))


def test_a_truncated_newest_checkpoint_is_reported_and_an_older_one_used(calm: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    stop(folder, "serial", 5, 0.0, signal.SIGKILL)
    newest = list_checkpoints(folder)[-1]
    os.truncate(newest, newest.stat().st_size // 2)
    output = finish(folder, "serial").replace("\n", "")
    assert "warning" in output
    assert newest.name in output
    assert "using the previous checkpoint" in output
    assert results(Run(folder)) == results(Run(calm))

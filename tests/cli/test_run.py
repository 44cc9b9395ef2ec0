"""`eunoe run` as a user types it: good input, bad input, resuming."""

import json
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

import eunoe as package
from eunoe.cli.run import new_folder
from eunoe.simulation.run import Run
from eunoe.store.folder import RunFolder
from tests.cli.command import Outcome, eunoe

CONFIG = """
rounds = 3
participation = 2
partition = {clients = 30}
model = {name = "mlp", hidden = [4]}
training = {epochs = 1}
engine = {name = "serial"}
probes = []
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An own folder with a config file."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "c.toml").write_text(CONFIG)
    yield tmp_path
    assert not list(tmp_path.rglob("*.part"))


def refused(outcome: Outcome, *, says: str, here: Path) -> None:
    """One line on standard error, exit code 2, and nothing written."""
    assert outcome.code == 2, outcome
    assert outcome.error.startswith("error: ")
    assert says in outcome.error
    assert len(outcome.error.splitlines()) == 1
    assert "Traceback" not in outcome.out + outcome.error
    assert sorted(path.name for path in here.rglob("*")) == ["c.toml"]


def test_a_run_prints_its_progress_and_its_folder(here: Path) -> None:
    outcome = eunoe("run", "c.toml", "--set", "loss=wsm", "--set", "training.lr=0.3")
    assert outcome.code == 0
    assert "round 3/3" in outcome.out
    assert "fedavg · wsm" in outcome.out
    assert "all 3 rounds done; results in runs/fedavg_wsm-seed-0" in outcome.out
    done = Run(here / "runs" / "fedavg_wsm-seed-0")
    assert done.finished
    assert done.config.training.lr == 0.3


def test_a_run_writes_its_report_unless_disabled(here: Path) -> None:
    outcome = eunoe("run", "c.toml", "--out", "a")
    assert f"report: {(here / 'a/report.html').as_uri()}" in outcome.out
    assert "What was forgotten" in (here / "a/report.html").read_text("utf-8")
    assert "report" not in eunoe("run", "c.toml", "--out", "b", "--no-report").out
    assert not (here / "b/report.html").exists()


def test_warnings_are_lines_on_standard_error(here: Path) -> None:
    outcome = eunoe("run", "c.toml", "--set", "method=feddyn", "--no-report")
    assert outcome.error.startswith("warning: feddyn may diverge without clipping")
    assert len(outcome.error.splitlines()) == 1
    assert logging.getLogger("eunoe").handlers == []


def test_the_same_run_again_lies_beside_the_first(here: Path) -> None:
    for _ in range(3):
        assert eunoe("run", "c.toml", "--set", "name=Ü / 猫").code == 0
    assert sorted(path.name for path in (here / "runs").iterdir()) == [
        "Ü_猫-seed-0",
        "Ü_猫-seed-0-2",
        "Ü_猫-seed-0-3",
    ]
    metrics = {(path / "metrics.jsonl").read_bytes() for path in (here / "runs").iterdir()}
    assert len(metrics) == 1


@pytest.mark.parametrize("name", ["../../up", "[/b]", "[red]x", "{task}", "a\nb", "x" * 300, "..", "$(ls)"])
def test_odd_names_are_only_names(here: Path, name: str) -> None:
    outcome = eunoe("run", "c.toml", "--set", f"name={json.dumps(name)}", "--set", "rounds=1")
    assert outcome.code == 0, outcome.error
    (folder,) = (here / "runs").iterdir()
    assert Run(folder).config.name == name
    assert sorted(path.name for path in here.iterdir()) == ["c.toml", "runs"]


@pytest.mark.parametrize(
    ("setting", "says"),
    [
        ("method=fedavgg", "did you mean 'fedavg'?"),
        ("loss=wms", "did you mean 'wsm'?"),
        ("model=mlpp", "did you mean 'mlp'?"),
        ("data=digts", "did you mean 'digits'?"),
        ("partition=idd", "did you mean 'iid'?"),
        ("server_optimizer=yogy", "did you mean 'yogi'?"),
        ("participation=0", "a share above 0.0 up to 1.0, or a number of clients"),
        ("participation=2.0", "a share above 0.0 up to 1.0, or a number of clients"),
        ("participation=31", "participation=31 is more than the 30 clients"),
        ("partition.alpha=0", "alpha: input should be greater than 0"),
        ("partition.alpha=-0.5", "alpha: input should be greater than 0"),
        ("partition.clients=5000", "5,000 clients cannot share 1,442 samples"),
        ("training.lr=nan", "training.lr: input should be a finite number"),
        ("training.lr=-1", "training.lr: input should be greater than 0"),
        ("rouds=3", "there is no 'rouds'; did you mean 'rounds'?"),
        ("training.epoch=3", "there is no 'epoch' in [training]; did you mean 'epochs'?"),
        ("method.mu=0.1", "method 'fedavg' has no option 'mu'"),
        ("model.hiden=[3]", "did you mean 'hidden'?"),
        ("engine.device=banana", "engine.device: 'banana' cannot be used"),
        ("engine.name=proces", "did you mean 'process'?"),
        ("model=tests.cli.test_run:two_classes", "but the data have 10 classes"),
        ("model=tests.cli.nothing:here", "no module"),
        ("rounds", "write it as section.option=value"),
    ],
)
def test_bad_settings(here: Path, setting: str, says: str) -> None:
    refused(eunoe("run", "c.toml", "--set", setting), says=says, here=here)


def two_classes(shape: tuple[int, ...], classes: int) -> object:
    from torch import nn

    return nn.Sequential(nn.Flatten(), nn.Linear(64, 2))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "c.toml is empty"),
        ("# nothing\n", "c.toml is empty"),
        ("rounds = \n", "c.toml is not valid TOML"),
        ("[[[", "c.toml is not valid TOML"),
        ("\x00\x01", "c.toml is not valid TOML"),
        ("rouds = 3", "did you mean 'rounds'?"),
        ("[traning]\nlr = 1", "did you mean 'training'?"),
        ("training = 3", "training: input should be a section of options"),
        ("method = [1, 2]", "method: input should be a section of options"),
        ("rounds = 2020-01-01", "rounds: input should be a valid integer"),
        ('"" = 3', "there is no ''"),
    ],
)
def test_bad_config_files(here: Path, content: str, says: str) -> None:
    (here / "c.toml").write_text(content)
    refused(eunoe("run", "c.toml"), says=says, here=here)


def test_bad_paths(here: Path) -> None:
    refused(eunoe("run", "none.toml"), says="cannot read none.toml: No such file", here=here)
    refused(eunoe("run", here), says="is a folder, not a file", here=here)
    refused(eunoe("run", "c.toml", "--out", "c.toml"), says="cannot write to the folder c.toml", here=here)
    refused(eunoe("run", "c.toml", "--out", "c.toml/x"), says="cannot write to the folder", here=here)
    refused(eunoe("run", "c.toml", "--out", "/proc/x"), says="cannot write to the folder", here=here)
    refused(eunoe("run", "--resume", "nowhere"), says="nowhere is not a run folder", here=here)
    refused(eunoe("run", "--resume", "."), says="is not a run folder", here=here)
    refused(eunoe("run", "c.toml", "--resume", "."), says="cannot be combined with a config file", here=here)
    zero = eunoe("run", "c.toml", "--engine", "process", "--workers", 0)
    refused(zero, says="workers: input should be greater", here=here)


def test_going_on_with_a_run(here: Path) -> None:
    assert eunoe("run", "c.toml", "--out", "whole", "--set", "rounds=4").code == 0
    assert eunoe("run", "c.toml", "--out", "parts").code == 0
    again = eunoe("run", "c.toml", "--out", "parts")
    assert (again.code, again.error) == (
        2,
        "error: parts already has a run; resume it with eunoe run --resume parts, or use another folder\n",
    )
    changed = eunoe("run", "--resume", "parts", "--set", "training.lr=3")
    assert changed.code == 2
    assert changed.error.startswith("error: training.lr is 0.05 in parts and cannot become 3.0")
    assert (
        eunoe("run", "--resume", "parts", "--set", "rounds=4", "--engine", "process", "--workers", 1).code
        == 0
    )
    assert (here / "parts/metrics.jsonl").read_bytes() == (here / "whole/metrics.jsonl").read_bytes()
    assert Run(here / "parts").config.engine.workers == 1


def test_the_config_of_a_run_is_a_config_file(here: Path) -> None:
    assert eunoe("run", "c.toml", "--out", "a", "--set", "method=fedadam", "--set", "loss=fedlc").code == 0
    assert eunoe("run", "a/config.toml", "--out", "b").code == 0
    for name in ("metrics.jsonl", "config.toml"):
        assert (here / "a" / name).read_bytes() == (here / "b" / name).read_bytes()


def test_a_folder_in_which_another_process_runs(here: Path) -> None:
    with RunFolder(here / "busy"):
        outcome = eunoe("run", "c.toml", "--out", "busy")
    assert outcome.code == 2
    assert "another process is running in busy" in outcome.error


def test_a_run_that_diverges_is_no_bad_input(here: Path) -> None:
    outcome = eunoe("run", "c.toml", "--set", "training.lr=1e38", "--out", "run")
    assert outcome.code == 1
    assert "error: every client of round" in outcome.error or "error: the global model" in outcome.error
    assert Run(here / "run").status["state"] == "diverged"


def test_folders_are_numbered(here: Path) -> None:
    assert new_folder("a / b", 3) == Path("runs/a_b-seed-3")
    Path("runs/a_b-seed-3").mkdir(parents=True)
    assert new_folder("a / b", 3) == Path("runs/a_b-seed-3-2")


# As processes of their own.


def start(*arguments: str) -> "subprocess.Popen[str]":
    """The real command; one that was started in the background would ignore Ctrl-C."""
    return subprocess.Popen(
        [sys.executable, "-m", "eunoe", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(Path(package.__file__).parents[1])},
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def wait_for_rounds(path: Path, rounds: int, process: "subprocess.Popen[str]") -> None:
    """Until so many rounds are recorded."""
    while not path.exists() or len(path.read_text().splitlines()) < rounds:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


def test_ctrl_c_leaves_a_run_that_goes_on_to_the_same_bits(here: Path) -> None:
    long = ["--set", "rounds=100000", "--set", "evaluation.last=0", "--set", "evaluation.every=0"]
    with start("run", "c.toml", "--out", "run", *long) as process:
        wait_for_rounds(here / "run/metrics.jsonl", 2, process)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate()
    assert process.returncode == 130
    assert "resume with: eunoe run --resume run" in out
    assert "Traceback" not in error
    assert Run(here / "run").status["state"] == "interrupted"
    more = len((here / "run/metrics.jsonl").read_text().splitlines()) + 1
    assert eunoe("run", "--resume", "run", "--set", f"rounds={more}").code == 0
    assert eunoe("run", "c.toml", "--out", "whole", *long, "--set", f"rounds={more}").code == 0
    assert (here / "run/metrics.jsonl").read_bytes() == (here / "whole/metrics.jsonl").read_bytes()


def test_bad_input_in_a_process_of_its_own(here: Path) -> None:
    with start("run", "c.toml", "--set", "loss=wms") as process:
        out, error = process.communicate()
    refused(Outcome(process.returncode, out, error), says="did you mean 'wsm'?", here=here)


def test_a_message_of_the_system_is_short(here: Path) -> None:
    long = eunoe("watch", "m" * 34_000)
    assert long.code == 1
    assert "File name too long" in long.error
    assert len(long.error) < 3000


def test_a_terminal_without_the_characters_gets_question_marks(here: Path) -> None:
    ascii_only = mock.patch.dict(os.environ, {"PYTHONIOENCODING": "ascii"})
    with ascii_only, start("run", "c.toml", "--set", "rounds=1") as process:
        out, error = process.communicate()
    assert (process.returncode, error) == (0, "")
    assert "fedavg ? ce" in out

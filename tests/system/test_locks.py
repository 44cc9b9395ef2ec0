"""Locks on files, and systems that cannot fork."""

import subprocess
import sys
from pathlib import Path

import pytest

from eunoe.config.schema import make_config
from eunoe.engines.base import make_engine
from eunoe.engines.client_states import ClientStates
from eunoe.engines.serial import Serial
from eunoe.errors import InputError
from eunoe.simulation.build import assemble
from eunoe.simulation.running import run
from eunoe.system.locks import lock_file
from tests.small_runs import BRIEF, bits

TRY = "import sys; from eunoe.system.locks import lock_file; lock_file(open(sys.argv[1], 'ab'))"


def test_a_lock_excludes_other_processes_until_its_file_is_closed(tmp_path: Path) -> None:
    with open(tmp_path / "lock", "ab") as file:
        lock_file(file)
        assert subprocess.run([sys.executable, "-c", TRY, tmp_path / "lock"], capture_output=True).returncode
    assert not subprocess.run([sys.executable, "-c", TRY, tmp_path / "lock"]).returncode


def test_where_no_process_can_be_forked_clients_train_in_this_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("eunoe.engines.base.can_fork", lambda: False)
    config = make_config({**BRIEF, "engine": "process"})
    simulation, _ = assemble(config)
    assert isinstance(make_engine(config, simulation, ClientStates(tmp_path / "states")), Serial)
    forked = run({**BRIEF, "checkpoint_seconds": 0}, out=tmp_path / "serial")
    here = run({**BRIEF, "checkpoint_seconds": 0, "engine": "process"}, out=tmp_path / "process")
    assert bits(here.folder) == bits(forked.folder)
    devices = make_config({**BRIEF, "engine": {"name": "process", "devices": "cuda:*"}})
    with pytest.raises(InputError, match="needs a system that can fork"):
        make_engine(devices, simulation, ClientStates(tmp_path / "states"))

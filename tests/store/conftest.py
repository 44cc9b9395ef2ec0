"""A run folder to damage."""

from pathlib import Path

import pytest

from eunoe.engines.client_states import ClientStates
from eunoe.store.folder import RunFolder
from tests.store.made_folders import write_rounds


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    """A folder with five rounds, a checkpoint after each."""
    states = ClientStates(tmp_path / "states")
    with RunFolder(tmp_path) as folder:
        write_rounds(folder, states, range(1, 6))
    return tmp_path

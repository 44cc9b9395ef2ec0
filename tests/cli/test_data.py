"""`eunoe data`."""

import numpy as np
import pytest
from typer.testing import CliRunner

from eunoe.cli.data import app
from eunoe.errors import InputError


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "160")
    x, y = np.zeros((10, 28, 28), np.uint8), np.arange(10)
    np.savez(tmp_path / "mnist.npz", x_train=x, y_train=y, x_test=x, y_test=y)
    return tmp_path


def test_list_shows_what_is_here_and_what_is_not(folder):
    result = CliRunner().invoke(app, ["list"])
    assert result.exit_code == 0
    cells = [line.replace("│", " ").split() for line in result.output.splitlines()]
    lines = {words[0]: " ".join(words) for words in cells}
    assert lines["digits"].split()[1:4] == ["1,442", "355", "10"]
    assert lines["mnist"].split()[1:4] == ["10", "10", "10"]
    assert "not the official arrays" in lines["mnist"]
    assert "not downloaded" in lines["femnist"]
    assert "flwrlabs/femnist" in lines["femnist"]


def test_fetch_of_what_is_here_shows_it(folder):
    result = CliRunner().invoke(app, ["fetch", "mnist"])
    assert result.exit_code == 0
    assert "mnist.npz" in result.output


def test_fetch_of_an_unknown_name_is_an_input_error(folder):
    result = CliRunner().invoke(app, ["fetch", "mnits"])
    assert isinstance(result.exception, InputError)

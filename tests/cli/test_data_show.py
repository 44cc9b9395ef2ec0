"""`eunoe data show` on the embedded digits."""

import re
from pathlib import Path

import pytest

from eunoe.cli.data import show
from eunoe.errors import InputError, RunFailed
from tests.cli.command import eunoe

CONFIG = """
seed = 3
[data]
name = "digits"
[partition]
name = "dirichlet"
clients = 12
"""


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "config.toml"
    path.write_text(CONFIG)
    return path


def test_numbers_and_report(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = config.parent / "deep" / "figure.v1"
    show(config, set_=["public.count=42"], over="partition.alpha=0.01,100", clients=4, out=out)
    printed = capsys.readouterr().out
    assert "alpha = 0.01" in printed
    assert "alpha = 100" in printed
    assert "38 + 4 are public" in printed
    html = (config.parent / "deep" / "figure.v1.html").read_text()
    assert "digits, partitioned by dirichlet" in html
    assert "alpha = 100" in html


def test_a_list_is_one_value(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    show(config, over="model.hidden=[8, 8],[16]", clients=2, out=config.parent / "figure")
    printed = capsys.readouterr().out
    assert printed.count("hidden = ") == 2
    assert "hidden = [8, 8]" in printed
    assert "hidden = [16]" in printed


def test_clients_named_are_the_clients_drawn(config: Path) -> None:
    show(config, client=[7, 2], out=config.parent / "figure")
    html = (config.parent / "figure.html").read_text()
    assert "dirichlet, clients = 12" in html
    assert set(re.findall(r"Client (\d+): ", html)) == {"2", "7"}


def test_what_cannot_be_shown_is_reported_and_nothing_written(config: Path) -> None:
    out = config.parent / "figure"
    with pytest.raises(InputError, match="numbered from 0 to 11"):
        show(config, client=[12], out=out)
    with pytest.raises(InputError, match=r"write it as section\.option=x,y"):
        show(config, over="partition.alpha", out=out)
    with pytest.raises(InputError, match="alpha"):
        show(config, over="partition.alpha=0,1", out=out)
    with pytest.raises(RunFailed, match="cannot write"):
        show(config, out=config / "figure")
    assert sorted(path.name for path in config.parent.iterdir()) == ["config.toml"]


def test_numbers_have_sizes_alone(tmp_path: Path) -> None:
    shown = eunoe(
        "data",
        "show",
        "--set",
        "data.name=diabetes",
        "--set",
        "partition.name=natural",
        "--out",
        tmp_path / "p",
    )
    assert shown.code == 0, shown.error
    assert "samples per client" in shown.out
    assert "no class shares to plot" in shown.out
    assert not (tmp_path / "p.html").exists()


def test_labels_are_counted_as_often_as_they_are_there(tmp_path: Path) -> None:
    choice = ("--set", "data.name=digit_attributes", "--set", "partition.name=natural")
    shown = eunoe("data", "show", *choice, "--out", tmp_path / "p")
    assert shown.code == 0, shown.error
    # Ten digits have all their 1,442 samples, and the digit 1 no label.
    assert "1,442" in shown.out
    assert "labels per client" in shown.out
    assert (tmp_path / "p.html").exists()

"""`eunoe data show` on the embedded digits."""

from pathlib import Path

import pytest

from eunoe.cli.data_show import show
from eunoe.errors import InputError

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


def test_numbers_report_and_picture(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = config.parent / "deep" / "figure.v1"
    show(config, set_=["public.count=42"], over="partition.alpha=0.01,100", clients=4, out=out)
    printed = capsys.readouterr().out
    assert "alpha = 0.01" in printed
    assert "alpha = 100" in printed
    assert "38 + 4 are public" in printed
    html = (config.parent / "deep" / "figure.v1.html").read_text()
    assert "digits, partitioned by dirichlet" in html
    assert "alpha = 100" in html
    assert (config.parent / "deep" / "figure.v1.png").read_bytes().startswith(b"\x89PNG")


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
    assert {line.split(":")[0] for line in html.split("<title>Client ")[1:]} == {"2", "7"}


def test_what_cannot_be_shown_is_reported_and_nothing_written(config: Path) -> None:
    out = config.parent / "figure"
    with pytest.raises(InputError, match="numbered from 0 to 11"):
        show(config, client=[12], out=out)
    with pytest.raises(InputError, match="must be an option and its values"):
        show(config, over="partition.alpha", out=out)
    with pytest.raises(InputError, match="alpha"):
        show(config, over="partition.alpha=0,1", out=out)
    with pytest.raises(InputError, match="cannot write"):
        show(config, out=config / "figure")
    assert sorted(path.name for path in config.parent.iterdir()) == ["config.toml"]

"""Tables on a terminal: numbers are never cut, however narrow it is."""

import pytest
from rich.console import Console

from eunoe.cli import tables

HEADINGS = ["run", "seeds", "accuracy", "forgetting", "FedNTD score", "worst tenth", "MB up", "seconds"]
ROW = ["fedavg · ce, training.lr=0.1, partition.alpha=0.05, participation=0.1", "3"]
ROW += ["0.712 ± 0.014", "0.0213 ± 0.0011", "0.120 ± 0.010", "0.401 ± 0.020", "1.25 ± 0.00", "102.5 ± 3.1"]


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A terminal of 80 columns."""
    made = Console(width=80, force_terminal=True, color_system=None)
    monkeypatch.setattr(tables, "Console", lambda **_: made)


@pytest.mark.usefixtures("terminal")
def test_what_does_not_fit_goes_on_in_a_further_table(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(HEADINGS, [ROW], title="a title", note="a note")
    shown = capsys.readouterr().out
    assert "…" not in shown
    assert all(cell in shown for cell in (*HEADINGS, *ROW[1:]))
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count("fedavg") > 1
    assert (shown.count("a title"), shown.count("a note")) == (1, 1)


@pytest.mark.usefixtures("terminal")
def test_what_fits_is_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(HEADINGS[:4], [ROW[:4]])
    shown = capsys.readouterr().out
    assert shown.count("fedavg") == 1
    assert "0.712 ± 0.014" in shown
    assert "0.0213 ± 0.0011" in shown


def test_without_a_terminal_a_table_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    tables.show(HEADINGS * 3, [ROW * 3])
    assert capsys.readouterr().out.count("seconds") == 3

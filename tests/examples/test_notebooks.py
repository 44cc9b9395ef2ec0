"""Every notebook holds its outputs, and runs from top to bottom."""

from pathlib import Path

import nbformat
import pytest
from tools.notebooks import FOLDER, execute, texts

PRINTED = {
    "1-see-forgetting.ipynb": ("a round takes", "Local training"),
    "2-cure-it.ipynb": ("wsm ", "points", "averaging "),
    "3-your-own-method.ipynb": ("FedAvg at mu = 0: True", "greater than or equal to 0"),
}


def test_every_notebook_is_tested() -> None:
    assert {path.name for path in FOLDER.glob("*.ipynb")} == set(PRINTED)


@pytest.mark.parametrize("name", PRINTED)
def test_its_outputs_are_stored_with_their_figures(name: str) -> None:
    notebook = nbformat.read(FOLDER / name, as_version=4)
    check(notebook, name)
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
    badge = notebook.cells[0].source
    assert (
        f"https://colab.research.google.com/github/eunoe-fl/eunoe/blob/main/examples/notebooks/{name}"
        in badge
    )
    # Images, which every viewer of notebooks shows.
    figures = [cell for cell in notebook.cells if "eunoe.figures(" in cell.source]
    assert figures
    assert all("image/png" in output.data for cell in figures for output in cell.outputs)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
def test_it_runs_and_shows_what_it_promises(name: str, tmp_path: Path) -> None:
    check(execute(FOLDER / name, tmp_path), name)


def check(notebook: nbformat.NotebookNode, name: str) -> None:
    """Check that the outputs of a notebook have the words that it promises, and no error."""
    shown = texts(notebook)
    for words in PRINTED[name]:
        assert words in shown
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    assert not any(output.output_type == "error" for output in outputs)

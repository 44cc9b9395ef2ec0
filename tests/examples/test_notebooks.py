"""Every notebook runs from top to bottom and shows what it promises."""

from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).parents[2] / "examples" / "notebooks"
PRINTED = {
    "1-see-forgetting.ipynb": ("a round takes", "Local training"),
    "2-cure-it.ipynb": ("wsm ", "points", "averaging "),
    "3-your-own-method.ipynb": ("FedAvg at mu = 0: True", "greater than or equal to 0"),
}


def test_every_notebook_is_tested_and_holds_no_output() -> None:
    assert {path.name for path in FOLDER.glob("*.ipynb")} == set(PRINTED)
    for name in PRINTED:
        cells = nbformat.read(FOLDER / name, as_version=4).cells
        assert not any(cell.get("outputs") or cell.get("execution_count") for cell in cells)


@pytest.mark.slow
@pytest.mark.parametrize("name", PRINTED)
def test_it_runs_and_shows_what_it_promises(name: str, tmp_path: Path) -> None:
    notebook = nbformat.read(FOLDER / name, as_version=4)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    shown = "".join(
        output.get("text", "") or str(output.get("data", {}).get("text/plain", "")) for output in outputs
    )
    for words in PRINTED[name]:
        assert words in shown
    assert not any(output["output_type"] == "error" for output in outputs)

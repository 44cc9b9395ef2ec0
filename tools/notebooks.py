"""`make notebooks`: run the notebooks in examples/notebooks and store their outputs in them."""

import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "notebooks"
SECONDS = 600


def execute(path: Path, folder: Path) -> Any:
    """Run a notebook from top to bottom in a folder and return it with its outputs."""
    notebook = nbformat.read(path, as_version=4)  # type: ignore[no-untyped-call]
    resources = {"metadata": {"path": str(folder)}}
    return NotebookClient(notebook, timeout=SECONDS, record_timing=False, resources=resources).execute()


def texts(notebook: Any) -> str:
    """Return all outputs of a notebook as text, one after the other."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "\n".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs)


def main() -> None:
    """Run all notebooks in an empty folder."""
    for path in sorted(FOLDER.glob("*.ipynb")):
        with tempfile.TemporaryDirectory() as folder:
            notebook = execute(path, Path(folder))
        # The version of Python that ran it is of no interest.
        notebook.metadata["language_info"] = {"name": "python"}
        nbformat.write(notebook, path)  # type: ignore[no-untyped-call]
        print(path)


if __name__ == "__main__":
    main()

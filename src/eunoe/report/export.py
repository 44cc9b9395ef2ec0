"""Figures as PDF, SVG or PNG files, as wide as columns of a paper, and the notebook view of a run."""

import base64
from collections.abc import Sequence
from html import escape
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from eunoe.analysis.comparison import Comparison
from eunoe.errors import InputError, install_command
from eunoe.report.figures import all_figures
from eunoe.report.theme import config
from eunoe.store.run_records import RunRecords
from eunoe.system.files import make_folder, replacing

Format = Literal["pdf", "svg", "png"]

# In points of 1/72 inch: column widths of common paper styles, the space of axes, and the largest height.
ONE_COLUMN, TWO_COLUMNS, AXES, HEIGHT = 240, 504, 54, 130
# Characters of the longest name in a legend of two columns.
LONGEST_IN_TWO_COLUMNS = 20


def paper_spec(chart: Any) -> dict[str, Any]:
    """Return the spec of a chart for print: no slider, no tooltips, as wide as one or two columns."""
    spec = without_hover(chart.to_dict(validate=False))
    for param in spec.get("params", []):
        param.pop("bind", None)
    name_in_full(spec)
    if "concat" in spec:
        columns = min(spec["columns"], len(spec["concat"]))
        width = sum(panel["width"] for panel in spec["concat"][:columns])
        scale = (TWO_COLUMNS - columns * AXES) / width
        for panel in spec["concat"]:
            square, height = panel["width"] == panel["height"], panel["height"]
            panel["width"] = round(panel["width"] * scale)
            low = min(height, HEIGHT) if isinstance(height, int | float) else {"step": 10}
            panel["height"] = panel["width"] if square else low
    elif "facet" in spec:
        spec["spec"]["width"] = TWO_COLUMNS - 2 * AXES
    else:
        spec["width"], spec["height"] = ONE_COLUMN - AXES, HEIGHT
    return spec


def name_in_full(spec: Any) -> None:
    """Let legends of runs show whole names, in one column if two would be wider than the figure."""
    if isinstance(spec, dict):
        color = spec.get("color")
        if isinstance(color, dict) and color.get("field") == "run" and color.get("legend"):
            longest = max(map(len, color["scale"]["domain"]))
            color["legend"] |= {"labelLimit": 0, "columns": 2 if longest <= LONGEST_IN_TWO_COLUMNS else 1}
    for inner in spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ():
        name_in_full(inner)


def without_hover(spec: dict[str, Any]) -> dict[str, Any]:
    """Remove the invisible points that only serve tooltips."""
    for panel in spec.get("concat", [spec]):
        if "layer" in panel:
            panel["layer"] = [layer for layer in panel["layer"] if layer["mark"].get("opacity") != 0]
    return spec


def draw(chart: Any, format: Format) -> bytes:
    """Render a chart to the bytes of a file."""
    vl_convert = _renderer()
    spec, look = paper_spec(chart), {**config("#111111", font_size=8), "background": "#ffffff"}
    look["line"] = {"strokeWidth": 1.2, "strokeJoin": "round"}
    if format == "svg":
        return as_svg(spec, look).encode()
    if format == "pdf":
        return bytes(vl_convert.vegalite_to_pdf(spec, _version(spec), config=look))
    return bytes(vl_convert.vegalite_to_png(spec, _version(spec), config=look, ppi=300, scale=1))


def as_svg(spec: dict[str, Any], look: dict[str, Any]) -> str:
    """Render a spec as SVG."""
    return str(_renderer().vegalite_to_svg(spec, _version(spec), config=look))


def _renderer() -> Any:
    try:
        import vl_convert
    except ImportError:
        raise InputError(f"figures as files need vl-convert-python: {install_command('figures')}") from None
    return vl_convert


def _version(spec: dict[str, Any]) -> str:
    return ".".join(spec["$schema"].rsplit("/v", 1)[1].split(".")[:2])


def write_figures(runs: Sequence[RunRecords], folder: str | Path, format: Format = "pdf") -> list[Path]:
    """Write every figure of these runs into a folder, named after the figure."""
    paths = []
    make_folder(Path(folder))
    for figure in all_figures(runs):
        path = Path(folder) / f"{figure.name}.{format}"
        with replacing(path) as partial:
            partial.write_bytes(draw(figure.chart, format))
        paths.append(path)
    return paths


SHOWN = ("accuracy", "round-forgetting")


def notebook_html(run: RunRecords, folder: Path) -> str:
    """Return the table of a run, and its accuracy and forgetting over the rounds."""
    state = escape(f"{run.status['state']} after round {len(run.metrics)}, in {folder}")
    parts = [Comparison([run]).table().html(), f"<p>{state}</p>"]
    for figure in all_figures([run], SHOWN) if find_spec("vl_convert") else ():
        # As an image, so that it cannot run scripts or mix with the notebook's styles.
        data = base64.b64encode(draw(figure.chart, "svg")).decode()
        parts.append(
            f'<figure style="display:inline-block;margin:0 1em 1em 0;max-width:26em">'
            f'<img style="width:100%" alt="{escape(figure.chart.description)}" '
            f'src="data:image/svg+xml;base64,{data}"><figcaption>{escape(figure.title)}</figcaption></figure>'
        )
    if not find_spec("vl_convert"):
        parts.append(f"<p>For curves: {escape(install_command('figures'))}</p>")
    return "".join(parts)

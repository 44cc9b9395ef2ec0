"""The notebook view of a run: its numbers and curves as self-contained HTML."""

import base64
from html import escape
from importlib.util import find_spec
from pathlib import Path

from eunoe.analysis.comparison import Comparison
from eunoe.errors import install_command
from eunoe.report.export import draw
from eunoe.report.figures import all_figures
from eunoe.store.run_records import RunRecords

SHOWN = ("accuracy", "round-forgetting")


def html(run: RunRecords, folder: Path) -> str:
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

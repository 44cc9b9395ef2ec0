"""The notebook view of a run: its numbers and curves as self-contained HTML."""

import base64
from html import escape
from pathlib import Path

from eunoe.analysis.comparison import Comparison
from eunoe.report.export import draw
from eunoe.report.figures import all_figures
from eunoe.report.figures.charts import Figure
from eunoe.store.run_records import RunRecords

SHOWN = ("accuracy", "round-forgetting")


def html(run: RunRecords, folder: Path) -> str:
    """The table of a run, and its accuracy and forgetting over the rounds."""
    state = f"{run.status['state']} after round {len(run.metrics)}, in {folder}"
    figures = "".join(_picture(figure) for figure in all_figures([run], SHOWN))
    return f"{Comparison([run]).table().html()}<p>{escape(state)}</p>{figures}"


def _picture(figure: Figure) -> str:
    # As an image, so that it cannot run scripts or mix with the notebook's styles.
    data = base64.b64encode(draw(figure.chart, "svg")).decode()
    words = escape(str(figure.chart.description))
    return (
        f'<figure style="display:inline-block;margin:0 1em 1em 0;max-width:26em">'
        f'<img style="width:100%" alt="{words}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{escape(figure.title)}</figcaption></figure>"
    )

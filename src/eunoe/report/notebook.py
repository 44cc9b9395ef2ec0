"""A run as a notebook shows it: its numbers and its curves, in one piece of HTML that loads nothing."""

import base64
from html import escape
from typing import TYPE_CHECKING

from eunoe.records.comparison import table
from eunoe.records.reader import read_run
from eunoe.report.export import draw
from eunoe.report.figures import all_figures
from eunoe.report.theme import Figure

if TYPE_CHECKING:
    from eunoe.runs.run import Run

SHOWN = ("accuracy", "round-forgetting")


def html(run: "Run") -> str:
    """The table of a run, and its accuracy and forgetting over the rounds."""
    headings, rows = table([run])
    cells = [f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows]
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    state = f"{run.status['state']} after round {len(run.records)}, in {run.folder}"
    figures = "".join(_picture(figure) for figure in all_figures([read_run(run.folder)], SHOWN))
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(cells)}</tbody></table>"
        f"<p>{escape(state)}</p>{figures}"
    )


def _picture(figure: Figure) -> str:
    # As an image, so that nothing in it can run or mix with the notebook's own styles.
    data = base64.b64encode(draw(figure.chart, "svg")).decode()
    words = escape(str(figure.chart.description))
    return (
        f'<figure style="display:inline-block;margin:0 1em 1em 0;max-width:26em">'
        f'<img style="width:100%" alt="{words}" src="data:image/svg+xml;base64,{data}">'
        f"<figcaption>{escape(figure.title)}</figcaption></figure>"
    )

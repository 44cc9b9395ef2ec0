"""Colors, sizes and limits of all figures.

Colors are safe for color-blind readers: runs have the palette of Okabe and Ito (without black and yellow,
which vanish on a dark or a white background), accuracies have viridis, and differences go from blue (gained)
to orange (forgotten).
"""

import json
from typing import Any

from eunoe.text import fill_template

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A6FAC", "#8C6D31")
DARK_PALETTE = ("#56B4E9", "#F0803C", "#2FBF98", "#E39AC4", "#F0B840", "#3D8FD1", "#A79BD8", "#C2A15E")
# Of steps of a round and directions of traffic, which are no runs; they suit a light and a dark page.
STEP_COLORS = ("#8a6fb0", "#b08a2e", "#7d8790", "#5f9ea0")
# From gained to forgotten.
DIVERGING = ("#2166ac", "#92b9d8", "#f4f4f2", "#f0b27a", "#d9730d")
DARK_DIVERGING = ("#2166ac", "#35506f", "#26292f", "#8a5320", "#d9730d")
SCREEN_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
# Fonts of equal width on every machine, so that no text is cut off at the edge of an image.
PICTURE_FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"
WIDTH, HEIGHT, PANEL = 320, 200, 200

# Limits on what a report shows, so that reports of long runs with many clients and classes open fast.
MOST_POINTS, MOST_PROBES, MOST_CLIENTS, MOST_CLASSES, MOST_CELLS = 120, 12, 20, 40, 25_000


def config(ink: str, dark: bool = False, font_size: int = 12, font: str = SCREEN_FONT) -> dict[str, Any]:
    """Return the Vega-Lite config; `ink` is the color of text and lines ("currentColor" in the report)."""
    values = {"ink": ink, "font": font, "width": WIDTH, "height": HEIGHT}
    values |= {"size": font_size, "small": font_size - 1, "smallest": font_size - 2}
    values["category"] = json.dumps(DARK_PALETTE if dark else PALETTE)
    values["diverging"] = json.dumps(DARK_DIVERGING if dark else DIVERGING)
    return json.loads(fill_template("eunoe.report", "vega.json", values))

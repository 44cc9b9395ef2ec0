"""Colors, sizes and limits of all figures.

Colors are safe for color-blind readers: runs have the palette of Okabe and Ito (without black and yellow,
which vanish on a dark or a white background), accuracies have viridis, and differences go from blue (gained)
to orange (forgotten).
"""

from typing import Any

PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7A6FAC", "#8C6D31")
DARK_PALETTE = ("#56B4E9", "#F0803C", "#2FBF98", "#E39AC4", "#F0B840", "#3D8FD1", "#A79BD8", "#C2A15E")
GAINED, FORGOTTEN = "#2166ac", "#d9730d"
SCREEN_FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
# Fonts of equal width on every machine, so that no text is cut off at the edge of an image.
PICTURE_FONT = "Arial, 'Liberation Sans', Helvetica, sans-serif"
WIDTH, HEIGHT, PANEL = 320, 200, 200

# Limits on what a report shows, so that reports of long runs with many clients and classes open fast.
MOST_POINTS, MOST_PROBES, MOST_CLIENTS, MOST_CLASSES, MOST_CELLS = 120, 12, 20, 40, 25_000


def config(ink: str, dark: bool = False, font_size: int = 12, font: str = SCREEN_FONT) -> dict[str, Any]:
    """Return the Vega-Lite config; `ink` is the color of text and lines ("currentColor" in the report)."""
    middle = "#26292f" if dark else "#f4f4f2"
    text = {"labelColor": ink, "titleColor": ink, "labelFont": font, "titleFont": font}
    small = {"labelFontSize": font_size - 1, "titleFontSize": font_size - 1}
    return {
        "background": "transparent",
        "font": font,
        "view": {"stroke": None, "continuousWidth": WIDTH, "continuousHeight": HEIGHT},
        "axis": {
            **text,
            **small,
            "titleFontWeight": "normal",
            "titleOpacity": 0.8,
            "domainColor": ink,
            "domainOpacity": 0.35,
            "tickColor": ink,
            "tickOpacity": 0.35,
            "gridColor": ink,
            "gridOpacity": 0.1,
            "labelOverlap": True,
        },
        "legend": {
            **text,
            **small,
            "titleFontWeight": "normal",
            "gradientLength": 120,
            "gradientThickness": 10,
        },
        "header": {**text, "labelFontSize": font_size, "labelFontWeight": 600, "labelLimit": 300},
        "title": {
            "color": ink,
            "font": font,
            "fontSize": font_size,
            "fontWeight": 600,
            "anchor": "start",
            "subtitleColor": ink,
            "subtitleFontSize": font_size - 1,
            "subtitleFont": font,
            "limit": 0,
        },
        "line": {"strokeWidth": 2, "strokeJoin": "round"},
        "rule": {"color": ink},
        "text": {"color": ink, "font": font, "fontSize": font_size - 2},
        "range": {
            "heatmap": {"scheme": "viridis"},
            "ramp": {"scheme": "viridis"},
            "diverging": [GAINED, "#92b9d8" if not dark else "#35506f", middle]
            + (["#f0b27a"] if not dark else ["#8a5320"])
            + [FORGOTTEN],
            "category": list(DARK_PALETTE if dark else PALETTE),
        },
    }

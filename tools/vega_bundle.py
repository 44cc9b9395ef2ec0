"""Write src/eunoe/report/vega.js: Vega, Vega-Lite and Vega-Embed as one script, for reports.

Run `python -m tools.vega_bundle` after a new version of altair or vl-convert-python in constraints.txt.
"""

import re
from pathlib import Path

import altair
import vl_convert

PATH = Path(__file__).resolve().parents[1] / "src" / "eunoe" / "report" / "vega.js"
NOTICE = "/* Vega, Vega-Lite, Vega-Embed and what they use; licenses are in vega-licenses.txt. */\n"


def bundle() -> str:
    """Return the script, such that it can stand in an HTML page."""
    version = ".".join(altair.SCHEMA_VERSION.split(".")[:2])
    code: str = vl_convert.javascript_bundle("window.vegaEmbed = vegaEmbed;", version)
    return NOTICE + re.sub(r"(?i)<(?=/script|!--)", r"\\x3c", code) + "\n"


if __name__ == "__main__":
    PATH.write_text(bundle(), encoding="utf-8")

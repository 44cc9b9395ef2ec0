"""The partition report: labeled statistics, a figure with values on hover."""

import re
from pathlib import Path

import numpy as np

from eunoe.analysis.tables import Table
from eunoe.data.statistics import summarize
from eunoe.report.figures.partition import partition_chart
from eunoe.report.pages import number_lines, write_partition_report

COUNTS = np.array([[3, 0, 1, 0], [0, 5, 5, 0], [2, 0, 0, 0]])


def test_numbers_in_words() -> None:
    assert number_lines(summarize(COUNTS), 4) == {
        "clients": "3",
        "samples": "16",
        "samples per client": "5.3 (2 to 10)",
        "classes per client": "1.7 (1 to 2)",
        "label entropy, bits": "0.60 of 2.00",
        # Half of 7/8, of 5/8 and of 11/8, whose mean is 23/48.
        "distance to overall mix": "0.48",
        "single-class clients": "33%",
    }
    assert number_lines(summarize(COUNTS[:1]), 4)["samples per client"] == "4 each"


def test_the_report_has_the_numbers_and_the_figure_and_escapes_names(tmp_path: Path) -> None:
    lines = number_lines(summarize(COUNTS), 4)
    table = Table(["", "<a>"], [[name, text] for name, text in lines.items()])
    chart = partition_chart({"<a>": COUNTS}, [0, 1, 2])
    html = write_partition_report(tmp_path / "p.html", "A & B", "none", table, chart).read_text()
    assert "<h3>A &amp; B</h3>" in html
    assert "<th>&lt;a&gt;</th>" in html
    assert "<td>5.3 (2 to 10)</td>" in html
    assert "Label entropy is 0" in html
    assert len(set(re.findall(r"Client \d: [^\"]+", html))) == 5
    assert "Client 0: 3 of class 0 (75.0%)" in html
    assert "<a>" not in html

"""A table in each of its formats."""

import csv

from eunoe.analysis.tables import Table

MADE = Table(["run", "a|b"], [["x_1 & 50% #{~^}\\", "0.5 ± 0.1"], ['comma, "quote"', "–"]])


def test_markdown() -> None:
    assert MADE.markdown().splitlines() == [
        "| run | a\\|b |",
        "| --- | --- |",
        "| x_1 & 50% #{~^}\\ | 0.5 ± 0.1 |",
        '| comma, "quote" | – |',
    ]


def test_csv_has_one_number_in_a_cell() -> None:
    assert list(csv.reader(MADE.csv().splitlines())) == [
        ["run", "a|b", "a|b ±"],
        [MADE.rows[0][0], "0.5", "0.1"],
        [MADE.rows[1][0], "", ""],
    ]


def test_csv_leaves_names_whole() -> None:
    assert Table(["run", "seeds"], [["lr 0.1 ± half", "3"]]).csv() == "run,seeds\nlr 0.1 ± half,3"


def test_latex_escapes_what_it_must() -> None:
    lines = MADE.latex().splitlines()
    assert lines[0] == r"\begin{tabular}{lr}"
    assert lines[4] == (
        r"x\_1 \& 50\% \#\{\textasciitilde{}\textasciicircum{}\}\textbackslash{} & 0.5 $\pm$ 0.1 \\"
    )
    assert lines[5] == r'comma, "quote" & -- \\'
    assert lines[-1] == r"\end{tabular}"


def test_text_has_numbers_to_the_right() -> None:
    lines = Table(["run", "n", "word"], [["a", "10", "x"], ["bcde", "9", "long"]]).text().splitlines()
    assert lines == ["run    n  word", "----  --  ----", "a     10  x", "bcde   9  long"]


def test_html_is_escaped() -> None:
    assert '<th scope="row">comma, &quot;quote&quot;</th><td class="number">' in MADE.html()


def test_some_columns() -> None:
    assert Table(["a", "b", "c"], [["1", "2", "3"]], "note").pick([0, 2]) == Table(
        ["a", "c"], [["1", "3"]], "note"
    )


def test_columns_without_an_entry_are_left_out() -> None:
    rows = [["1", "", ""], ["2", "", "3"]]
    assert Table(["a", "b", "c"], rows, "note").drop_empty() == Table(
        ["a", "c"], [["1", ""], ["2", "3"]], "note"
    )

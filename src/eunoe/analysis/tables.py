"""A table: headings and rows of text, formatted as plain text, HTML, Markdown, CSV, JSON or LaTeX."""

import csv
import io
import json
from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape

from eunoe.analysis.statistics import NONE, is_number

_LATEX = {character: f"\\{character}" for character in "&%$#_{}"} | {
    "±": "$\\pm$",
    NONE: "--",
    "·": "$\\cdot$",
    "\\": "\\textbackslash{}",
    "~": "\\textasciitilde{}",
    "^": "\\textasciicircum{}",
}


@dataclass(frozen=True)
class Table:
    """Headings, rows of as many cells, and a note that explains the numbers."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def numeric(self, column: int) -> bool:
        """Return whether every cell of a column is a number."""
        return column > 0 and all(is_number(row[column]) for row in self.rows)

    def pick(self, columns: Sequence[int]) -> "Table":
        """Return a table of the selected columns."""
        rows = [[row[column] for column in columns] for row in self.rows]
        return Table([self.headings[column] for column in columns], rows, self.note)

    def drop_empty(self) -> "Table":
        """Return a table without empty columns."""
        return self.pick([at for at in range(len(self.headings)) if any(row[at] for row in self.rows)])

    def text(self) -> str:
        """Format as plain text in columns, numbers right-aligned."""
        widths = [max(map(len, column)) for column in zip(self.headings, *self.rows, strict=True)]
        lines = [
            "  ".join(
                cell.rjust(width) if self.numeric(at) else cell.ljust(width)
                for at, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in (self.headings, ["-" * width for width in widths], *self.rows)
        ]
        return "\n".join(lines)

    def html(self, marked: Container[int] = ()) -> str:
        """Return an HTML table, with `class="marked"` on the rows at these positions."""
        numeric = [self.numeric(at) for at in range(len(self.headings))]

        def line(cells: Sequence[str], tag: str, look: str = "") -> str:
            first, *others = map(escape, cells)
            scope = "col" if tag == "th" else "row"
            html = [f'<th scope="{scope}">{first}</th>']
            for cell, number in zip(others, numeric[1:], strict=True):
                html.append(f'<{tag} class="number">{cell}</{tag}>' if number else f"<{tag}>{cell}</{tag}>")
            return f"<tr{look}>{''.join(html)}</tr>"

        rows = enumerate(self.rows)
        body = "".join(line(row, "td", ' class="marked"' if at in marked else "") for at, row in rows)
        return f"<table><thead>{line(self.headings, 'th')}</thead><tbody>{body}</tbody></table>"

    def markdown(self) -> str:
        """Format as a Markdown table."""
        lines = [self.headings, ["---"] * len(self.headings), *self.rows]
        return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in lines)

    def csv(self) -> str:
        """Format as CSV, with the columns of `_single_numbers`."""
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(zip(*self._single_numbers(), strict=True))
        return text.getvalue().rstrip("\n")

    def json(self) -> str:
        """Format as a JSON list with an object per row, with the columns of `_single_numbers`."""
        headings, *rows = zip(*self._single_numbers(), strict=True)
        return json.dumps(
            [{key: _json_value(cell) for key, cell in zip(headings, row, strict=True)} for row in rows],
            ensure_ascii=False,
            indent=1,
        )

    def _single_numbers(self) -> list[list[str]]:
        """Return columns with one number in a cell: deviations over seeds have columns of their own."""
        columns = []
        for heading, *cells in zip(self.headings, *self.rows, strict=True):
            # Names may contain ±, so only a number and its deviation are split.
            halves = [cell.partition(" ± ") if is_number(cell) else (cell, "", "") for cell in cells]
            columns.append([heading, *("" if mean == NONE else mean for mean, _, _ in halves)])
            if any(sign for _, sign, _ in halves):
                columns.append([f"{heading} ±", *(spread for _, _, spread in halves)])
        return columns

    def latex(self) -> str:
        """Format as a LaTeX tabular."""

        def line(cells: Sequence[str]) -> str:
            return " & ".join("".join(_LATEX.get(c, c) for c in cell) for cell in cells) + r" \\"

        body = "\n".join(line(row) for row in self.rows)
        spec = "l" + "r" * (len(self.headings) - 1)
        head = f"\\begin{{tabular}}{{{spec}}}\n\\hline\n{line(self.headings)}\n\\hline"
        return f"{head}\n{body}\n\\hline\n\\end{{tabular}}"


def _json_value(cell: str) -> str | float | None:
    """Return a number as such, an empty cell as null, and other text as it is."""
    if is_number(cell):
        for kind in (int, float):
            with suppress(ValueError):
                return kind(cell)
    return cell or None

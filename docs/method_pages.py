"""The table of methods (docs/methods.md) and the site's page for each, from the code and what was measured.

`make docs` writes docs/methods.md anew.
"""

import importlib
import inspect
import json
import re
import tomllib
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from textwrap import dedent

from tools.summaries import method_rows

from eunoe.analysis.tables import Table
from eunoe.config import registry
from eunoe.methods.base import Method
from eunoe.server.optimizers import ServerOptimizer

HERE = Path(__file__).parent
MEASURED = json.loads((HERE / "measured" / "methods-on-digits.json").read_text("utf-8"))
WHEN_IT_HELPS = tomllib.loads((HERE / "when_it_helps.toml").read_text("utf-8"))


def kind_of(name: str) -> type[Method] | type[ServerOptimizer]:
    """A method, or the server optimizer of those that are FedAvg with another one."""
    found = registry.find("method", name)
    assert isinstance(found, type)
    assert issubclass(found, Method | ServerOptimizer)
    return found


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    return Table(headings, rows).markdown()


def source_of(name: str) -> str:
    """The file that has a method's paper, formula and code, as docs/ links to it."""
    return f"../src/{kind_of(name).__module__.replace('.', '/')}.py"


def overview(link: Callable[[str], str] = source_of) -> str:
    """All methods with what they cost, and what they reached on digits; `link` says where each leads."""
    headings = ["method", "what it does", "client state", "up", "down", "client compute", "server"]
    rows = [
        [f"[{name}]({link(name)})", registry.summary("method", name), *kind_of(name).cost]
        for name in registry.names("method")
    ]
    text = (
        "# Methods\n\nAny method goes with any loss, except central training, which has no clients and "
        "minimizes cross-entropy. Costs are per client and round: state and traffic in multiples of the "
        "model's size, compute on top of FedAvg's. `eunoe list methods` prints this "
        "table; each file starts with the paper and the formula.\n\n"
    )
    table = markdown(MEASURED["headings"], MEASURED["rows"])
    digits = f"## Measured on digits\n\n{MEASURED['setting']}\n\n{table}\n\n{MEASURED['says']}\n"
    return text + markdown(headings, rows) + "\n\n" + digits


def method_page(name: str) -> str:
    """A method's formula (its module's docstring), when it helps, its options, its cost and its results."""
    kind = kind_of(name)
    first, _, rest = (inspect.getdoc(importlib.import_module(kind.__module__)) or "").partition("\n\n")
    options = [
        [f"`{key}`", "needed" if field.is_required() else f"`{field.default}`", field.description or ""]
        for key, field in kind.model_fields.items()
    ]
    lines = [
        f"# {name}",
        registry.summary("method", name),
        re.sub(r"(https?://\S+)", r"<\1>", " ".join(first.split())),
        formulas_and_words(rest),
        "## When it helps",
        WHEN_IT_HELPS[name],
        "## Use",
        f"```sh\neunoe run --set method.name={name}\n```",
        "## Options",
        markdown(["option", "default", "what it means"], options),
        "## Cost against FedAvg",
        markdown(["client state", "up", "down", "client compute", "server"], [list(kind.cost)]),
        "## Measured on digits",
        MEASURED["setting"],
        markdown(MEASURED["headings"], [row for row in MEASURED["rows"] if of_method(row, name)]),
    ]
    if rows := method_rows(name):
        beside = "" if name == "fedavg" else ", beside FedAvg's"
        lines += [
            "## In the papers' experiments",
            f"Our own runs{beside}; [Results](../results.md) has them with all others.",
            markdown(["table or figure", "run", "paper", "ours", "rounds"], rows),
        ]
    return "\n\n".join(lines) + "\n"


def formulas_and_words(text: str) -> str:
    """A docstring as Markdown: what is indented there, formulas and tables, as blocks of code."""
    parts = []
    for is_code, blocks in groupby(text.rstrip().split("\n\n"), key=lambda block: block.startswith("    ")):
        whole = "\n\n".join(blocks)
        parts.append(f"```text\n{dedent(whole)}\n```" if is_code else whole)
    return "\n\n".join(parts)


def of_method(row: list[str], name: str) -> bool:
    """Whether a row of the table on digits is of a method, or of FedAvg, which it is compared with."""
    return row[0].split(" + ")[0] in (name, "fedavg")


if __name__ == "__main__":
    (HERE / "methods.md").write_text(overview(), "utf-8")

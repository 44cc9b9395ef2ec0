"""Write docs/methods.md and the site's page for each method, from the code and docs/measured.

`make docs` updates docs/methods.md.
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
from eunoe.simulation.compatibility import RULES

HERE = Path(__file__).parent
MEASURED = json.loads((HERE / "measured" / "methods-on-digits.json").read_text("utf-8"))
WHEN_IT_HELPS = tomllib.loads((HERE / "when_it_helps.toml").read_text("utf-8"))


def kind_of(name: str) -> type[Method] | type[ServerOptimizer]:
    """Return the class of a method, or of its server optimizer if it is FedAvg with that optimizer."""
    kind = registry.find("method", name)
    assert isinstance(kind, type)
    assert issubclass(kind, Method | ServerOptimizer)
    return kind


def markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    return Table(headings, rows).markdown()


def source_of(name: str) -> str:
    """Return the link from docs/ to a method's source file."""
    return f"../src/{kind_of(name).__module__.replace('.', '/')}.py"


TOP = """# Methods: which are there, and what do they cost?

```sh
eunoe options method:scaffold
eunoe run --set rounds=5 --set method.name=scaffold --out runs/scaffold
```

```console
│ scaffold · ce │     1 │    0.334 │     0.1071 │
```

Any method works with any loss and any engine, except `central`, which has no clients and minimizes
cross-entropy. Start with FedAvg and [averaging](remedies.md#averaging); `eunoe diagnose` proposes a method
where one fits the run.

The table shows the cost per client and round: state and traffic in multiples of the model's size, compute on
top of FedAvg's (`eunoe list methods` also has the server's cost). Accuracy and round forgetting are those of
`examples/digits.toml`. Each file starts with the paper and the formula."""
SETTING = f"""`examples/digits.toml`: 20 clients with few digits each, 4 per round, 40 rounds, seeds
{", ".join(map(str, MEASURED["seeds"]))}. Accuracy on the test set is the mean of the last 10 rounds,
forgetting the mean of all rounds. Every method has its defaults (feddf: 300 distillation steps)."""
NOTES = f"""- {SETTING}
- The standard deviation over seeds is at most {{accuracy}} in accuracy and {{forgetting}} in forgetting.
- Nothing was tuned: the table shows that every method works with both losses, not which one is best.
- wsm lowers round forgetting with 27 of 28 methods (not with flashback)."""
BOTTOM = """See also: [Remedies](remedies.md), [Losses](losses.md), [your own method](own-method.md)."""


def overview(link: Callable[[str], str] = source_of) -> str:
    """Return docs/methods.md: costs of all methods and their results on digits; `link` links a method."""
    headings = ["method", "what it does", "client state", "up", "down", "client compute"]
    headings += ["accuracy: ce, wsm", "forgetting: ce, wsm"]
    rows = [
        [
            f"[{name}]({link(name)})",
            registry.summary("method", name),
            *kind_of(name).cost[:4],
            means(name, column=1),
            means(name, column=2),
        ]
        for name in registry.names("method")
    ]
    notes = NOTES.format(accuracy=largest_std(1), forgetting=largest_std(2))
    return "\n\n".join([TOP, markdown(headings, rows), notes, BOTTOM]) + "\n"


def means(name: str, column: int) -> str:
    """Return the means of a method under ce and wsm in a column of the table on digits."""
    results = {row[0]: row[column].split(" ± ")[0] for row in MEASURED["rows"]}
    return ", ".join(results[run] for loss in ("ce", "wsm") if (run := f"{name} + {loss}") in results) or "–"


def largest_std(column: int) -> str:
    """Return the largest standard deviation over seeds in a column of the table on digits."""
    return max((row[column].split(" ± ")[1] for row in MEASURED["rows"]), key=float)


def method_page(name: str) -> str:
    """Return a method's page: formula (its module's docstring), when it helps, options, cost and results."""
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
        SETTING,
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
    """Convert a docstring to Markdown: indented formulas and tables become code blocks."""
    parts = []
    for is_code, blocks in groupby(text.rstrip().split("\n\n"), key=lambda block: block.startswith("    ")):
        whole = "\n\n".join(blocks)
        parts.append(f"```text\n{dedent(whole)}\n```" if is_code else whole)
    return "\n\n".join(parts)


def of_method(row: list[str], name: str) -> bool:
    """Return whether a row of the table on digits belongs to the method or to FedAvg."""
    return row[0].split(" + ")[0] in (name, "fedavg")


def compatibility() -> str:
    """Return the page of which options go together, from the table of rules."""
    messages = dict.fromkeys(rule.message for rule in RULES)
    lines = [f"- {message[0].upper()}{message[1:]}." for message in messages]
    return "\n".join(
        [
            "# What goes together",
            "",
            "Any loss goes with any method and any server optimizer. These combinations are refused before "
            "round 1, with the message below (names and numbers in braces are those of the run):",
            "",
            *lines,
            "",
            "Losses, methods, metrics and streams are for the tasks that `eunoe list` names. What a method "
            "needs besides is on its page in [Methods](methods.md).",
            "",
        ]
    )


if __name__ == "__main__":
    (HERE / "methods.md").write_text(overview(), "utf-8")

"""Write docs/methods.md and the site's page for each method, from the code and the stored leaderboard.

`make docs` updates docs/methods.md.
"""

import importlib
import inspect
import re
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from itertools import groupby
from pathlib import Path
from textwrap import dedent

from docs.leaderboard_page import boards
from tools.summaries import method_rows

from eunoe.analysis.statistics import NONE
from eunoe.analysis.tables import Table
from eunoe.config import registry
from eunoe.methods.base import Method
from eunoe.server.optimizers import ServerOptimizer
from eunoe.simulation.compatibility import RULES

HERE = Path(__file__).parent
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
top of FedAvg's (`eunoe list methods` also has the server's cost). Gain and round forgetting, both in points,
are those of the [leaderboard](leaderboard.md)'s suite `quick`. Each file starts with the paper and the
formula."""
SETTING = """Gain over tuned FedAvg in points of test accuracy with 95% intervals from five seeds, and round
forgetting in points, each with the best of four settings on a search seed, from the
[leaderboard](../leaderboard.md)."""
BOTTOM = """See also: [Leaderboard](leaderboard.md), [Remedies](remedies.md), [Losses](losses.md),
[your own method](own-method.md)."""
# The entry of the leaderboard with a method's results, where it has another name.
ENTRIES = {"fedavgm": "server momentum"}
HEADINGS = ["suite", "entry", "gain", "forgetting"]


@cache
def results() -> Table:
    """Return gain and forgetting of all entries in all suites of the stored leaderboard."""
    rows = [
        [suite, each.name, each.gain.points(""), f"{100 * each.forgetting:.1f}"]
        for suite, board in boards().items()
        for each in board.standings
        if each.by_setting
    ]
    return Table(HEADINGS, rows)


def overview(link: Callable[[str], str] = source_of) -> str:
    """Return docs/methods.md: costs of all methods and their results on digits; `link` links a method."""
    headings = ["method", "what it does", "client state", "up", "down", "client compute", *HEADINGS[2:]]
    quick = {entry: cells for suite, entry, *cells in results().rows if suite == "quick"}
    rows = [
        [
            f"[{name}]({link(name)})",
            registry.summary("method", name),
            *kind_of(name).cost[:4],
            *quick.get(ENTRIES.get(name, name), [NONE, NONE]),
        ]
        for name in registry.names("method")
    ]
    return "\n\n".join([TOP, markdown(headings, rows), BOTTOM]) + "\n"


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
    ]
    if measured := [row for row in results().rows if row[1].split(" + ")[0] == ENTRIES.get(name, name)]:
        lines += ["## On the leaderboard", SETTING, markdown(HEADINGS, measured)]
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

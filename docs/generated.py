"""Pages that the site makes from the code and from results/, so that they cannot fall behind."""

import importlib
import inspect
import json
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from eunoe import registry
from eunoe.comparison import as_markdown
from eunoe.methods.base import Method

MEASURED = Path(__file__).parent / "measured" / "methods-on-digits.json"


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page per method and the table of all of them."""
    names = [name for name in registry.names("method") if method_of(name) is not None]
    files.append(File.generated(config, "methods.md", content=overview(names)))
    for name in names:
        files.append(File.generated(config, f"methods/{name}.md", content=method_page(name)))
    return files


def method_of(name: str) -> type[Method] | None:
    found: Any = registry.find("method", name)
    return found if isinstance(found, type) and issubclass(found, Method) else None


def overview(names: list[str]) -> str:
    """All methods with what they cost, and what they reached on digits."""
    headings = ["method", "what it does", "client state", "up", "down", "client compute", "server"]
    rows = []
    for name in names:
        method = method_of(name)
        assert method is not None
        rows.append([f"[{name}](methods/{name}.md)", registry.summary("method", name), *method.cost])
    text = (
        "# Methods\n\nAny method goes with any loss. Costs are per client and round, in multiples of the "
        "model's size, against FedAvg. `eunoe list methods` prints this table.\n\n"
    )
    return text + as_markdown(headings, rows) + "\n\n" + measured_table()


def measured_table() -> str:
    """What the sweep over all methods on digits gave."""
    if not MEASURED.exists():
        return ""
    found = json.loads(MEASURED.read_text())
    table = as_markdown(found["headings"], found["rows"])
    return f"## Measured on digits\n\n{found['setting']}\n\n{table}\n\n{found['says']}\n"


def method_page(name: str) -> str:
    """A method's own words (its module's docstring), its options, its cost and its measured result."""
    method = method_of(name)
    assert method is not None
    module = importlib.import_module(method.__module__)
    first, _, rest = (inspect.getdoc(module) or "").partition("\n\n")
    options = [
        [f"`{key}`", "needed" if field.is_required() else f"`{field.default}`", field.description or ""]
        for key, field in method.model_fields.items()
    ]
    cost = method.cost
    lines = [
        f"# {name}",
        registry.summary("method", name),
        " ".join(first.split()),
        f"```text\n{rest.rstrip()}\n```" if rest else "",
        "## Use",
        f"```sh\neunoe run --set method.name={name}\n```",
        "## Options",
        as_markdown(["option", "default", "what it means"], options),
        "## Cost against FedAvg",
        as_markdown(
            ["client state", "up", "down", "client compute", "server"],
            [[cost.client_state, cost.up, cost.down, cost.client_compute, cost.server_extra]],
        ),
    ]
    if MEASURED.exists():
        found = json.loads(MEASURED.read_text())
        mine = [row for row in found["rows"] if row[0].split(" ")[0].split("·")[0].strip() == name]
        if mine:
            lines += ["## Measured on digits", found["setting"], as_markdown(found["headings"], mine)]
    return "\n\n".join(line for line in lines if line) + "\n"

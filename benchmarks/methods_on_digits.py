"""Every method with cross-entropy and with WSM on digits; writes the table that the docs show.

    python benchmarks/methods_on_digits.py [--out DIR] [--jobs N] [--seeds 0 1 2]

Options are the defaults but for FedDF, whose 10,000 steps at the server are meant for larger data.
"""

import argparse
import json
import time
from pathlib import Path

from eunoe.config import registry
from eunoe.config.schema import read_config
from eunoe.records.comparison import COLUMNS, table
from eunoe.runs.sweep import sweep

ROOT = Path(__file__).parent.parent
SHORT = {"feddf": {"name": "feddf", "steps": 300, "every": 50, "patience": 100}}
SAYS = (
    "Options were not tuned, so this shows that every method works with both losses and how much it forgets, "
    "not which one is best: differences in accuracy of a few points are within what another seed changes."
)


def named(title: str) -> str:
    """A method and its loss, without the options."""
    method, _, loss = title.removeprefix("method=").partition(", loss=")
    return f"{method.split()[0]} + {loss}"


def compared(rows: list[list[str]]) -> str:
    """For how many methods wsm lowers forgetting."""
    forgotten = {row[0]: float(row[3].split()[0]) for row in rows}
    methods = sorted({name.split(" + ")[0] for name in forgotten} - {"central"})
    not_lower = [m for m in methods if forgotten[f"{m} + wsm"] >= forgotten[f"{m} + ce"]]
    besides = f" (not with {', '.join(not_lower)})" if not_lower else ""
    lower = len(methods) - len(not_lower)
    return f"wsm lowers what a round forgets with {lower} of {len(methods)} methods{besides}."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/methods"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    methods = [SHORT.get(name, name) for name in registry.names("method")]
    began = time.perf_counter()
    over = {"method": methods, "loss.name": ["ce", "wsm"]}
    runs = sweep(read_config(ROOT / "examples/digits.toml"), over, options.seeds, options.out, options.jobs)
    print(f"{len(runs)} runs in {time.perf_counter() - began:.0f} s")
    columns = [column for column in COLUMNS if column.metric in ("accuracy", "forgetting", "passes")]
    headings, rows = table(runs, columns)
    rows = [[named(row[0]), *row[1:]] for row in rows]
    accuracy = {row[0]: float(row[2].split()[0]) for row in rows}
    low = [name for name in accuracy if accuracy[name] < accuracy[f"fedavg + {name.split(' + ')[1]}"] / 2]
    found = {
        "setting": "`examples/digits.toml`: 20 clients with few digits each, 4 in a round, 40 rounds, the "
        f"defaults of each method (feddf: 300 server steps), seeds {', '.join(map(str, options.seeds))}.",
        "headings": headings,
        "rows": rows,
        "says": f"{SAYS} {compared(rows)}",
    }
    target = ROOT / "docs/measured/methods-on-digits.json"
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(found, indent=1) + "\n")
    print(f"below half of FedAvg: {', '.join(low) or 'none'}; table in {target}")


if __name__ == "__main__":
    main()

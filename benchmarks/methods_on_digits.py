"""Every method with cross-entropy and with WSM on digits; writes the table that the docs show.

    python benchmarks/methods_on_digits.py [--out DIR] [--jobs N] [--seeds 0 1 2]

Options are the defaults but for FedDF, whose 10,000 steps of distillation are meant for larger data.
"""

import argparse
import json
import time
from pathlib import Path

from eunoe.analysis.comparison import Comparison, Row
from eunoe.config import registry
from eunoe.config.settings import read_config
from eunoe.search.sweep import execute, plan

ROOT = Path(__file__).parent.parent
TARGET = ROOT / "docs/measured/methods-on-digits.json"
SHORT = {"feddf": {"name": "feddf", "steps": 300, "every": 50, "patience": 100}}
SAYS = (
    "Options were not tuned, so this shows that every method works with both losses and how much it forgets, "
    "not which one is best: differences in accuracy of a few points are within what another seed changes."
)


def named(row: Row) -> str:
    """A method and its loss, without the options."""
    method, _, loss = row.title.removeprefix("method=").partition(", loss=")
    return f"{method.split()[0]} + {loss}"


def compared(rows: dict[str, Row]) -> str:
    """For how many methods wsm lowers forgetting."""
    forgotten = {name: row.mean("forgetting") for name, row in rows.items()}
    methods = sorted({name.split(" + ")[0] for name in forgotten} - {"central"})
    lower = [m for m in methods if forgotten[f"{m} + wsm"] < forgotten[f"{m} + ce"]]
    others = ", ".join(m for m in methods if m not in lower)
    besides = f" (not with {others})" if others else ""
    return f"wsm lowers what a round forgets with {len(lower)} of {len(methods)} methods{besides}."


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/methods"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    options = parser.parse_args()
    # Clients that train alone have no model for the test set, which is nobody's own.
    methods = [SHORT.get(name, name) for name in registry.names("method") if name != "local"]
    over = {"method": methods, "loss.name": ["ce", "wsm"]}
    planned = plan(read_config(ROOT / "examples/digits.toml"), over, options.seeds, options.out)
    # Central training minimizes cross-entropy whatever the loss is.
    planned = [run for run in planned if run.label != "method=central, loss=wsm"]
    began = time.perf_counter()
    runs = execute(planned, options.jobs)
    print(f"{len(runs)} runs in {time.perf_counter() - began:.0f} s")
    comparison = Comparison([run.read for run in runs])
    rows = {named(row): row for row in comparison.rows}
    # Every row has the same seeds.
    table = comparison.table(comparison.named(["accuracy", "forgetting", "passes"])).pick([0, 2, 3, 4])
    found = {
        "setting": "`examples/digits.toml`: 20 clients with few digits each, 4 in a round, 40 rounds, the "
        "defaults of each method (feddf: 300 steps of distillation), "
        f"seeds {', '.join(map(str, options.seeds))}. {table.note[0].upper()}{table.note[1:]}.",
        "headings": table.headings,
        # The work of a client follows from its method and samples, not from the seed.
        "rows": [
            [name, *(cell.removesuffix(" ± 0.00") for cell in cells[1:])]
            for name, cells in zip(rows, table.rows, strict=True)
        ],
        "says": f"{SAYS} {compared(rows)}",
    }
    TARGET.write_text(json.dumps(found, indent=1) + "\n")
    fedavg = {loss: rows[f"fedavg + {loss}"].mean("accuracy") for loss in ("ce", "wsm")}
    low = [name for name, row in rows.items() if not row.mean("accuracy") >= fedavg[name.split(" + ")[1]] / 2]
    print(f"below half of FedAvg: {', '.join(low) or 'none'}; table in {TARGET}")


if __name__ == "__main__":
    main()

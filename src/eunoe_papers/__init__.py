"""The papers' tables and figures as experiments that `eunoe papers` lists and `eunoe reproduce` runs.

Here are the experiments (TOML files in experiments/, read by `loader`), the measures and claims, the judge,
the stored runs and their tables. What a method computes is in eunoe.methods, how runs are executed in
eunoe.search. The library never imports this package: the two commands are entry points. The type to know is
`experiment.Experiment`.
"""

from functools import cache
from typing import Any

from eunoe.text import read_data


@cache
def read_table(name: str) -> dict[str, Any]:
    """Return the content of a TOML file in experiments/."""
    return read_data("eunoe_papers", f"experiments/{name}.toml")

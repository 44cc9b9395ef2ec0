"""The TOML files in experiments/."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


@cache
def read_table(name: str) -> dict[str, Any]:
    """Return the content of a TOML file in experiments/."""
    return tomllib.loads(files("eunoe_papers").joinpath(f"experiments/{name}.toml").read_text("utf-8"))

"""Sweeps: runs over the product of settings and seeds.

Each run has its own folder, named by its settings: finished runs are skipped and interrupted ones resumed, so
a sweep can be continued or extended by more values or seeds.
"""

import itertools
import re
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from eunoe.config.settings import apply_settings, inline
from eunoe.errors import InputError
from eunoe.simulation.many import Planned


def plan(
    values: Mapping[str, Any], over: Mapping[str, Sequence[Any]], seeds: Sequence[int], out: Path
) -> list[Planned]:
    """Plan one run per seed and combination of the settings in `over`; validate all configs."""
    if "seed" in over:
        raise InputError("a sweep cannot vary 'seed' with --over: use --seeds 0,1,2")
    runs = []
    for combination in itertools.product(*over.values()):
        settings = dict(zip(over, combination, strict=True))
        text = [f"{path}={inline(value)}" for path, value in settings.items()]
        label = ", ".join(f"{path.removesuffix('.name')}={_label(value)}" for path, value in settings.items())
        for seed in seeds:
            full = {**apply_settings(values, text), "seed": seed}
            if label:
                # The base config's name alone would not distinguish the runs.
                full["name"] = f"{values['name']}, {label}" if values.get("name") else label
            runs.append(Planned(label or "run", full, out / folder_name(label or "run") / f"seed-{seed}"))
            _ = runs[-1].config
    return runs


def folder_name(label: str) -> str:
    """Return a label as a file name."""
    name = re.sub(r"[^\w.=+-]+", "_", label).strip("_") or "run"
    # File systems limit names to 255 bytes.
    return name if len(name) <= 60 else f"{name[:50]}-{zlib.crc32(label.encode()):08x}"


def _label(value: Any) -> str:
    """Return a value as text: a named component by its name, then its options."""
    if not isinstance(value, Mapping):
        return str(value)
    return " ".join(str(item) if key == "name" else f"{key}={item}" for key, item in value.items())

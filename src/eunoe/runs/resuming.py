"""What must be the same for a run to go on: its configuration and its data; and what may make bits differ."""

import json
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eunoe.config.schema import RESUMABLE, Config, make_config
from eunoe.errors import InputError
from eunoe.records.reader import read_run_config
from eunoe.runs.assembly import resolved
from eunoe.runs.environment import differences, environment
from eunoe.system.files import plain
from eunoe.training.simulation import Simulation

logger = logging.getLogger(__name__)


def check_place(folder: Path) -> None:
    """Refuse to go on here with a run whose clients' states are elsewhere."""
    if (folder / "flower.json").exists():
        raise InputError(
            f"{folder} is the run of a Flower federation, whose clients keep their own states: "
            "go on with it by `flwr run` or start.py"
        )


def check_config(folder: Path, new: Config) -> None:
    """Refuse to go on with the run in a folder under a configuration that would change its results."""
    check_change(folder, make_config(read_run_config(folder)), new)


def check_change(folder: Path, old: Config, new: Config) -> None:
    """Refuse to change a run's configuration in a way that would change its results."""
    # Written out, so that an option that is left out equals its default.
    before, after = (plain(resolved(config)) for config in (old, new))
    for name in Config.model_fields:
        if name == "preprocessing" and new.preprocessing is None:
            # A run's own says what it used; one that is left out follows from the data, which are checked.
            continue
        if name not in RESUMABLE and before.get(name) != after.get(name):
            where, was, wanted = _difference(name, before.get(name), after.get(name))
            raise InputError(
                f"{where} is {was!r} in {folder} and cannot become {wanted!r}: "
                f"what may change when a run goes on is {', '.join(sorted(RESUMABLE))}"
            )
    if (new.engine.name == "vectorized") != (old.engine.name == "vectorized"):
        raise InputError(
            "a run cannot change to or from the vectorized engine: its results differ in the last bits"
        )
    cohort = old.engine.options.get("cohort")
    if new.engine.name == "vectorized" and new.engine.options.get("cohort") != cohort:
        raise InputError(
            f"engine.cohort is {cohort} in {folder} and must stay so: another one's results differ in the "
            "last bits"
        )


def check_data(folder: Path, simulation: Simulation) -> None:
    """Refuse to go on with a run on other data; warn of another machine."""
    path = folder / "environment.json"
    if not path.exists():
        return
    then, now = json.loads(path.read_text("utf-8")), environment(simulation.federation)
    for key in ("data_sha256", "public_sha256", "partition_sha256"):
        if then.get(key) != now.get(key):
            raise InputError(f"the {key.split('_')[0]} of {folder} is not what it was when the run began")
    for difference in differences(then, now):
        logger.warning(difference)


def _difference(name: str, before: Any, after: Any) -> tuple[str, Any, Any]:
    """Where two configurations first differ, and what stands there in each."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        key = next(key for key in {**before, **after} if before.get(key) != after.get(key))
        return _difference(f"{name}.{key}", before.get(key), after.get(key))
    return name, before, after

"""Checks before a run is resumed: its configuration and data must match; another machine is warned of."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from eunoe.config.renamed import rename_keys
from eunoe.config.schema import RESUMABLE, Config, make_config
from eunoe.core.tasks import TASKS
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.simulation.stored_config import resolved
from eunoe.store.checkpoints import newest_checkpoint
from eunoe.store.environment import describe_environment, environment_warnings
from eunoe.store.reader import read_run_config
from eunoe.system.files import parse_toml, plain, read_json

logger = logging.getLogger(__name__)
PLAIN = {task.loss for task in TASKS}


def check_config(folder: Path, new: Config) -> None:
    """Raise InputError if a configuration would change the results of the run in a folder."""
    check_change(folder, make_config(read_run_config(folder)), new)
    # The checkpoint has it too, in case config.toml was changed by hand or by a bad disk.
    saved, _ = newest_checkpoint(folder)
    if saved is not None:
        try:
            values = rename_keys(parse_toml(saved.manifest.config, saved.path))
            check_change(saved.path, make_config(values), new)
        except InputError as error:
            raise InputError(f"{folder / 'config.toml'} changed since the run wrote it: {error}") from None


def check_change(folder: Path, old: Config, new: Config) -> None:
    """Raise InputError if a new configuration would change the results of a run."""
    # With defaults filled in, so that an omitted option equals its default.
    before, after = (plain(resolved(config)) for config in (old, new))
    if [section.name for section in old.stream] == [section.name for section in new.stream]:
        # The run's own streams say in which rounds data change; what is left out of the new ones follows.
        after["stream"] = [{**was, **now} for was, now in zip(before["stream"], after["stream"], strict=True)]
    for name in Config.model_fields:
        if name == "preprocessing" and new.preprocessing is None:
            # A run's own says what it used; one that is left out follows from the data, which are checked.
            continue
        if name == "loss" and new.loss == Config.model_fields["loss"].default and old.loss.name in PLAIN:
            # So does the plain loss of another task, which the default stands for.
            continue
        if name not in RESUMABLE and before.get(name) != after.get(name):
            where, was, wanted = _difference(name, before.get(name), after.get(name))
            raise InputError(
                f"{where} is {was!r} in {folder} and cannot become {wanted!r}: "
                f"on resume, only these may change: {', '.join(sorted(RESUMABLE))}"
            )
    if (new.engine.name == "vectorized") != (old.engine.name == "vectorized"):
        raise InputError("cannot change to or from the vectorized engine: results differ in the last bits")
    cohort = old.engine.options.get("cohort")
    if new.engine.name == "vectorized" and new.engine.options.get("cohort") != cohort:
        raise InputError(f"engine.cohort must stay {cohort}: results would differ in the last bits")


def check_data(folder: Path, simulation: Simulation) -> None:
    """Raise InputError if the data changed since the run started; warn of a different environment."""
    then, now = read_json(folder / "environment.json"), describe_environment(simulation.federation)
    if not then:
        return
    known = {"data": "dataset", "public": "public data", "partition": "partition"}
    retained = {f"retain {name}": f"reference set {name!r}" for name in simulation.federation.references}
    for key, part in (known | retained).items():
        if then.get(f"{key}_sha256") != now.get(f"{key}_sha256"):
            raise InputError(
                f"cannot resume {folder}: the {part} changed since the run started (SHA-256 mismatch)"
            )
    for difference in environment_warnings(then, now):
        logger.warning(difference)


def _difference(name: str, before: Any, after: Any) -> tuple[str, Any, Any]:
    """Return the first key in which two configurations differ, and both values."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        key = next(key for key in {**before, **after} if before.get(key) != after.get(key))
        return _difference(f"{name}.{key}", before.get(key), after.get(key))
    return name, before, after

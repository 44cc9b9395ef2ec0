"""What a run folder keeps so that the run can be repeated and resumed, and the checks before it is resumed.

The stored configuration is complete. On resume it and the data must match; another machine gives a warning.
"""

import logging
import os
import platform
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import torch

from eunoe.config import registry
from eunoe.config.options import Named, Preprocessing
from eunoe.config.schema import RESUMABLE, Config, make_config
from eunoe.config.settings import absolute_paths, rename_keys
from eunoe.core.tasks import TASKS
from eunoe.data.federation import Federation
from eunoe.data.samples import checksum
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError
from eunoe.simulation.build import UserObjects, is_user_object, loss_section
from eunoe.simulation.streams import with_streams
from eunoe.store.checkpoints import newest_checkpoint
from eunoe.store.reader import read_run_config
from eunoe.system.files import parse_toml, plain, read_json
from eunoe.system.machine import processor


def describe_environment(federation: Federation) -> dict[str, Any]:
    """Return versions, CPU, git commit and the hashes of data and partition."""
    from eunoe import __version__

    # None if the public set is part of the training data.
    public = None if federation.public is federation.data.train else federation.public
    commit = None
    with suppress(OSError, subprocess.SubprocessError):
        command = ["git", "rev-parse", "HEAD"]
        commit = subprocess.run(
            command, capture_output=True, text=True, timeout=10, check=True
        ).stdout.strip()
    return {
        "eunoe": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "system": platform.platform(),
        "cpu": processor(),
        "cores": os.cpu_count(),
        "git_commit": commit,
        "data": federation.data.name,
        "data_sha256": checksum(federation.data.train, federation.data.test),
        **({"public_sha256": checksum(public)} if public is not None else {}),
        **{f"retain {k}_sha256": checksum(v.train, v.test) for k, v in federation.references.items()},
        "partition_sha256": federation.checksum(),
    }


def resolved(config: Config, objects: UserObjects | None = None) -> dict[str, Any]:
    """Return the configuration with all defaults of named components and with absolute paths."""
    values = config.model_dump(mode="json", exclude_none=True)
    for key in ("partition", "backbone", "model", "loss", "method", "server_optimizer", "aggregation"):
        if getattr(config, key) is None:
            continue
        section: Named = getattr(config, key)
        passed = getattr(objects, "federation" if key == "partition" else key, None)
        if passed is not None or is_user_object(section):
            continue
        own = {name: value for name, value in values[key].items() if name not in {"name", *section.options}}
        full = registry.defaults(key, section.name, section.options)
        values[key] = {"name": section.name, **own, **{k: v for k, v in full.items() if v is not None}}
    return absolute_paths(values)


def with_loss(config: Config, simulation: Simulation) -> Config:
    """Return the configuration with the loss that is trained, which may follow from the task."""
    return config.model_copy(update={"loss": loss_section(config, simulation.federation.task)})


def complete_config(config: Config, simulation: Simulation) -> Config:
    """Return the configuration with what follows from its data, its model and its rounds."""
    config, data, engine = with_loss(config, simulation), simulation.federation.data, config.engine
    values: dict[str, Any] = {}
    if data.mean is not None and data.std is not None:
        values["preprocessing"] = Preprocessing(mean=data.mean, std=data.std)
    if engine.name == "vectorized" and engine.options.get("cohort") is None:
        from eunoe.engines.vectorized.engine import cohort_size

        cohort = cohort_size(simulation.model.parameters.numel())
        values["engine"] = engine.model_copy(update={"cohort": cohort})
    return with_streams(config.model_copy(update=values))


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
    for key in ("torch", "cpu"):
        if key in then and then[key] != now[key]:
            message = "%s was %r and is %r now: results may differ in the last bits"
            logger.warning(message, key, then[key], now[key])


def _difference(name: str, before: Any, after: Any) -> tuple[str, Any, Any]:
    """Return the first key in which two configurations differ, and both values."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        key = next(key for key in {**before, **after} if before.get(key) != after.get(key))
        return _difference(f"{name}.{key}", before.get(key), after.get(key))
    return name, before, after

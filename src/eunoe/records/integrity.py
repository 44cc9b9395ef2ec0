"""Whether the records of a run are what its newest checkpoint says they were."""

import hashlib
import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from eunoe.config.schema import RESUMABLE
from eunoe.errors import Damaged
from eunoe.system.files import parsed_json


def changed_files(folder: Path, config: Mapping[str, Any]) -> list[str]:
    """The files of a run folder that are not what was written; without a checkpoint nothing is known."""
    for path in sorted((folder / "checkpoints").glob("*.safetensors"), reverse=True):
        # A damaged checkpoint is reported by whoever resumes the run.
        with suppress(OSError, SafetensorError, Damaged, KeyError, TypeError, AttributeError, ValueError):
            with safe_open(path, "pt") as file:
                facts = parsed_json(file.metadata()["facts"], path)
            changed = [name for name, mark in facts["files"].items() if not _begins(folder / name, mark)]
            changed += ["status.json"] * (not (folder / "status.json").exists())
            then = tomllib.loads(facts["config"])
            keys = {*then, *config} - RESUMABLE
            return changed + ["config.toml"] * any(then.get(key) != config.get(key) for key in keys)
    return []


def _begins(path: Path, mark: Mapping[str, Any]) -> bool:
    """Whether a file begins as it did when the mark was made."""
    content = b""
    if path.exists():
        with open(path, "rb") as file:
            content = file.read(mark["bytes"])
    return bool(hashlib.sha256(content).hexdigest() == mark["sha256"])

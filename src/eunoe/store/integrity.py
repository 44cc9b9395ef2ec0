"""Whether the records of a run are what its newest checkpoint says they were."""

import tomllib
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from eunoe.config.renamed import rename_keys
from eunoe.config.schema import RESUMABLE
from eunoe.errors import Damaged
from eunoe.system.files import parse_json, read_beginning


def changed_files(folder: Path, config: Mapping[str, Any]) -> list[str]:
    """The files of a run folder that are not what was written; without a checkpoint nothing is known."""
    for path in sorted((folder / "checkpoints").glob("*.safetensors"), reverse=True):
        # A damaged checkpoint is reported by whoever resumes the run.
        with suppress(OSError, SafetensorError, Damaged, KeyError, TypeError, AttributeError, ValueError):
            with safe_open(path, "pt") as file:
                facts = parse_json(file.metadata()["facts"], path)
            changed = [name for name, mark in facts["files"].items() if not _begins(folder / name, mark)]
            changed += ["status.json"] * (not (folder / "status.json").exists())
            then = rename_keys(tomllib.loads(facts["config"]))
            keys = {*then, *config} - RESUMABLE
            return changed + ["config.toml"] * any(then.get(key) != config.get(key) for key in keys)
    return []


def _begins(path: Path, mark: Mapping[str, Any]) -> bool:
    """Whether a file begins as it did when the mark was made."""
    if not path.exists():
        return bool(mark["bytes"] == 0)
    with open(path, "rb") as file:
        return bool(read_beginning(file, mark["bytes"]).sha256.hexdigest() == mark["sha256"])

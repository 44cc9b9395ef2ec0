"""The environment of a run: versions, CPU and the hashes of its data."""

import os
import platform
import subprocess
from contextlib import suppress
from typing import Any

import numpy as np
import torch

from eunoe.data.federation import Federation
from eunoe.data.samples import checksum
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


def environment_warnings(then: dict[str, Any], now: dict[str, Any]) -> list[str]:
    """Return warnings for a run resumed in an environment whose results may differ in the last bits."""
    return [
        f"{key} was {then[key]!r} and is {now[key]!r} now: results may differ in the last bits"
        for key in ("torch", "cpu")
        if key in then and then[key] != now[key]
    ]

"""Small runs, and what makes two of them the same."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load

from eunoe.store.checkpoints import list_checkpoints
from tests.helpers import Net

FAST: dict[str, Any] = {
    "engine": "serial",
    "rounds": 4,
    "participation": 2,
    "training": {"epochs": 1, "lr": 0.2},
    "probes": [],
    "checkpoint_seconds": 0,
}
# Two rounds, evaluated at the end only.
BRIEF: dict[str, Any] = {
    "rounds": 2,
    "participation": 2,
    "engine": "serial",
    "partition": {"clients": 30},
    "model": {"name": "logistic"},
    "training": {"epochs": 1},
    "evaluation": {"every": 0, "last": 1},
    "probes": [],
}
# What methods that train on reference sets need.
REFERENCES: dict[str, dict[str, Any]] = {
    name: {"retain": [{"name": "digits", "data": "digits"}]} for name in ("ewc", "rehearsal")
}
NAMED: dict[str, Any] = {**FAST, "partition": {"clients": 30}, "model": {"name": "mlp", "hidden": [4]}}


def net() -> Net:
    torch.manual_seed(3)
    return Net()


def bits(folder: Path) -> dict[str, bytes]:
    """What must be the same for two runs to be the same."""
    weights = {path.name: path.read_bytes() for path in list_checkpoints(folder)[-1:]}
    return {"metrics": (folder / "metrics.jsonl").read_bytes(), "weights": vectors(weights)}


def vectors(files: dict[str, bytes]) -> bytes:
    (content,) = files.values()
    tensors = load(content)
    return b"".join(tensors[name].numpy().tobytes() for name in sorted(tensors))


def everything(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


class Stopped(Exception):
    pass


def stop_after(round: int, error: type[BaseException] = Stopped) -> Any:
    def on_round(record: dict[str, Any]) -> None:
        if record["round"] == round:
            raise error

    return on_round

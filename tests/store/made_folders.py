"""Run folders written by hand."""

import json
import math
from pathlib import Path
from typing import Any

import torch

from eunoe.core.flat_model import Weights
from eunoe.engines.client_states import ClientStates
from eunoe.store.checkpoints import RunState
from eunoe.store.folder import RunFolder


def weights(number: float) -> Weights:
    return Weights(torch.full((4,), number), torch.tensor([number]), torch.tensor([int(number)]))


def state_at(round: int) -> RunState:
    return RunState(
        weights(round),
        {"momentum": torch.full((4,), round / 2, dtype=torch.float64), "empty": torch.empty(0)},
        round,
        best=weights(round),
        best_accuracy=0.5,
        metrics={
            "plain": {"previous": [0.5, math.nan], "round": round, "best": None},
            "mixed": {"mean": torch.tensor([0.1, 0.2], dtype=torch.float64), "names": {"a": [1, "b"]}},
        },
        seconds=1.5,
    )


def write_rounds(folder: RunFolder, states: ClientStates, rounds: range, checkpoint: bool = True) -> None:
    for round in rounds:
        states.save(7, round, {"memory": torch.tensor([float(round)])})
        states.accept(7, round)
        folder.record({"round": round, "loss": math.nan}, {"round": round}, [{"round": round}])
        if checkpoint:
            folder.checkpoint(state_at(round), states)


def restored(path: Path) -> tuple[RunState, ClientStates, list[str]]:
    run_state, states = RunState(weights(0), {}), ClientStates(path / "states")
    with RunFolder(path) as folder:
        warnings = folder.restore(run_state, states)
    return run_state, states, warnings


def everything(path: Path) -> dict[Path, bytes]:
    return {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}


def lines(path: Path, name: str = "metrics.jsonl") -> list[Any]:
    return [json.loads(line) for line in (path / name).read_text().splitlines()]

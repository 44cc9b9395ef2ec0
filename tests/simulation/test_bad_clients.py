"""Runs with bad clients: stopped and resumed, and what is left after a divergence."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import eunoe
from eunoe.errors import Diverged
from eunoe.methods.base import Method, ServerUpdate
from eunoe.store.checkpoints import list_checkpoints
from tests.small_runs import NAMED, Stopped, bits, stop_after

BAD: dict[str, Any] = {
    **NAMED,
    "participation": 6,
    "method": "scaffold",
    "aggregation": {"name": "trimmed_mean", "share": 0.2},
    "attack": {"name": "scaled", "share": 0.2, "scale": 1e6},
}


def test_a_run_that_was_stopped_goes_on_with_the_same_bits_and_drops_the_same(tmp_path: Path) -> None:
    eunoe.run(**BAD, out=tmp_path / "whole")
    with pytest.raises(Stopped):
        eunoe.run(**BAD, out=tmp_path / "parts", on_round=stop_after(2))
    eunoe.resume(tmp_path / "parts")
    assert bits(tmp_path / "parts") == bits(tmp_path / "whole")
    lines = (tmp_path / "whole" / "metrics.jsonl").read_text().splitlines()
    dropped = [one for line in lines for one in json.loads(line)["dropped"]]
    assert dropped
    assert all("norm of" in one["reason"] for one in dropped)


class Overflows(Method):
    """The server's state is not finite after round 3; the model is."""

    def aggregate(self, server: Any, aggregate: Any, context: Any) -> ServerUpdate:
        merged = super().aggregate(server, aggregate, context)
        state = torch.full((1,), torch.inf if context.round == 3 else 0.0)
        return ServerUpdate(merged.weights, {**merged.server, "state": state})


def test_after_a_divergence_the_client_is_named_and_the_last_checkpoint_stays(tmp_path: Path) -> None:
    values = {**NAMED, "method": f"{__name__}:Overflows"}
    message = r"round 3 is not finite \(state\); the largest change is client \d+'s, with norm"
    with pytest.raises(Diverged, match=message):
        eunoe.run(**values, out=tmp_path / "run")
    assert [path.stem for path in list_checkpoints(tmp_path / "run")] == ["00000001", "00000002"]


def test_a_run_cannot_change_its_merge_or_attack(tmp_path: Path) -> None:
    with pytest.raises(Stopped):
        eunoe.run(**BAD, out=tmp_path / "run", on_round=stop_after(1))
    with pytest.raises(eunoe.InputError, match=r"aggregation.* cannot become"):
        eunoe.resume(tmp_path / "run", aggregation={"name": "median"})
    with pytest.raises(eunoe.InputError, match=r"attack.* cannot become"):
        eunoe.resume(tmp_path / "run", attack={"scale": 2.0})

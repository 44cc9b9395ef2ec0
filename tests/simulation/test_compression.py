"""Smaller updates in a run: engines, resuming, bytes, refusals."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch

from eunoe.errors import InputError
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from tests.helpers import Net, blobs, make_simulation

TOP = {"name": "topk", "share": 0.2}


def small(out: Path, compress: Any = TOP, **values: Any) -> Run:
    base = {"rounds": 5, "participation": 2, "probes": [], "engine": "serial", "checkpoint_seconds": 0}
    given = {} if compress is None else {"compress": compress}
    torch.manual_seed(0)
    return run({**base, **given, **values}, federation=blobs(), model=Net(), out=out, progress=False)


def lines(done: Run) -> str:
    return (done.folder / "metrics.jsonl").read_text()


def test_a_share_of_one_is_the_plain_run(tmp_path: Path) -> None:
    plain, whole = small(tmp_path / "plain", None), small(tmp_path / "whole", {"name": "topk", "share": 1})
    assert lines(plain) == lines(whole)


@pytest.mark.parametrize("compress", [TOP, {"name": "quantize", "bits": 4}], ids=["topk", "quantize"])
@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_engines_agree_and_a_resumed_run_goes_on_with_what_was_left(
    tmp_path: Path, compress: dict[str, Any], method: str
) -> None:
    whole = small(tmp_path / "whole", compress, method=method)
    assert lines(small(tmp_path / "process", compress, method=method, engine="process")) == lines(whole)
    small(tmp_path / "parts", compress, method=method, rounds=3)
    torch.manual_seed(0)
    rest = resume(tmp_path / "parts", rounds=5, federation=blobs(), model=Net(), progress=False)
    assert lines(rest) == lines(whole)
    # Without what was left it would be another run.
    assert lines(small(tmp_path / "bare", {**compress, "feedback": False}, method=method)) != lines(whole)


def test_the_vectorized_engine_keeps_what_was_left_too(tmp_path: Path) -> None:
    serial, done = small(tmp_path / "serial"), small(tmp_path / "vectorized", engine="vectorized")
    torch.testing.assert_close(done.weights().parameters, serial.weights().parameters, rtol=0, atol=1e-4)
    assert sorted(os.listdir(done.folder / "states/0")) == sorted(os.listdir(serial.folder / "states/0"))


def test_bytes_up_are_those_of_indices_and_values(tmp_path: Path) -> None:
    parameters = sum(p.numel() for p in Net().parameters())
    entries = -(-parameters // 5)
    assert small(tmp_path / "one").records[0]["bytes_up"] == 2 * 8 * entries
    both = small(tmp_path / "two", method="scaffold").records[0]
    assert both["bytes_up"] == 2 * 2 * 8 * entries
    # Down goes the whole model and the server's control variate.
    assert both["bytes_down"] == 2 * 2 * 4 * parameters


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"method": "central", "public": {"share": 0.1}}, "it trains no client"),
        ({"aggregation": "median"}, "aggregation='median': it compares changes entry by entry"),
        ({"server_optimizer": {"name": "sgd", "gma": 0.4}}, "needs signs or norms"),
        ({"secure_aggregation": {}, "participation": 3}, "combined with secure_aggregation"),
        ({"compress": {"name": "topk", "share": 0.6}}, "share=0.6 makes updates larger.* set it to 1"),
    ],
)
def test_what_does_not_compose_is_refused(values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_simulation(**{"compress": TOP, **values})

"""Runs with stale updates: engines, resuming, records."""

from pathlib import Path
from typing import Any

import pytest
import torch

from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from tests.helpers import Net, blobs
from tests.small_runs import FAST, Stopped, bits, net, stop_after

STALE: dict[str, Any] = {**FAST, "rounds": 8, "staleness": {"max": 3, "distribution": "geometric"}}
METHODS: list[dict[str, Any]] = [
    {"method": "scaffold"},
    {"method": "feddyn", "staleness": {"max": 2, "weighting": "polynomial"}},
    {"method": "fedgkd", "averaging": {"last": 2}},
    {"method": "fedavg", "compress": {"name": "topk", "share": 0.3}},
    {"method": "fedavg", "secure_aggregation": {}, "participation": 3},
]


def small(out: Path, **values: Any) -> Run:
    return run({**STALE, **values}, federation=blobs(), model=net(), out=out, progress=False)


@pytest.mark.parametrize("values", METHODS, ids=lambda values: values["method"])
def test_engines_agree_and_a_resumed_run_has_the_same_bits(tmp_path: Path, values: dict[str, Any]) -> None:
    serial = small(tmp_path / "serial", **values)
    process = small(tmp_path / "process", engine={"name": "process", "workers": 2}, **values)
    assert bits(process.folder) == bits(serial.folder)
    with pytest.raises(Stopped):
        run(
            {**STALE, **values},
            federation=blobs(),
            model=net(),
            out=tmp_path / "cut",
            on_round=stop_after(5),
        )
    assert bits(resume(tmp_path / "cut", federation=blobs(), model=net()).folder) == bits(serial.folder)
    plain = small(tmp_path / "plain", **{**values, "staleness": {"max": 0}})
    assert not torch.equal(plain.weights().parameters, serial.weights().parameters)


@pytest.mark.parametrize("method", ["fedavg", "scaffold"])
def test_the_vectorized_engine_agrees(tmp_path: Path, method: str) -> None:
    serial, stacked = (small(tmp_path / e, engine=e, method=method) for e in ("serial", "vectorized"))
    torch.testing.assert_close(stacked.weights().parameters, serial.weights().parameters, rtol=0, atol=1e-4)


def test_no_delay_is_the_run_without_the_option(tmp_path: Path) -> None:
    plain = small(tmp_path / "plain", staleness=None)
    assert bits(small(tmp_path / "none", staleness={"max": 0}).folder) == bits(plain.folder)


def test_records_have_the_delay_of_each_client_and_the_traffic_of_one_model(tmp_path: Path) -> None:
    done = small(tmp_path / "run", method="scaffold")
    delays = [record["delays"] for record in done.records]
    assert [len(each) for each in delays] == [2] * 8
    assert all(max(each) < number for number, each in enumerate(delays, start=1))
    assert max(map(max, delays)) > 0
    parameters = sum(p.numel() for p in Net().parameters())
    assert {record["bytes_down"] for record in done.records} == {2 * 2 * 4 * parameters}

"""Runs whose data change with the rounds."""

import json
from typing import Any

import numpy as np
import pytest
import torch

from eunoe.config.schema import make_config
from eunoe.data.arrays import from_arrays
from eunoe.data.federation import Federation
from eunoe.data.streams.changes import draw_schedule
from eunoe.search.sweep import plan
from eunoe.search.tune import tune
from eunoe.simulation.build import UserObjects, assemble
from eunoe.simulation.many import execute
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from eunoe.store.reader import read_run
from tests.helpers import select
from tests.small_runs import Stopped, bits, stop_after

SETTING: dict[str, Any] = {
    "rounds": 6,
    "partition": {"name": "dirichlet", "clients": 8, "alpha": 0.3},
    "participation": 3,
    "model": {"name": "mlp", "hidden": [4]},
    "training": {"epochs": 1},
    "engine": "serial",
    "probes": [],
}
STREAMS: dict[str, Any] = {
    "label_drift": {"stream": {"name": "label_drift", "start": 3, "end": 5}, "stale_counts": 1},
    "classes": {"stream": {"name": "classes", "phases": 3}, "replay": {"memory": 20}},
    "arrival": {"stream": {"name": "arrival", "joining": 0.5, "day": 4, "awake": 0.6}},
    "recorded": {
        "stream": {"name": "recorded", "share": 0.3},
        "training": {"epochs": 1, "label_counts": "seen"},
    },
    "domain": {"stream": "domain", "shift": {"kind": "contrast", "strength": 1.0}},
}


def same(one: Run, other: Run) -> bool:
    pairs = zip(one.weights().vectors().values(), other.weights().vectors().values(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


@pytest.mark.parametrize(
    "stream", [{"name": "classes", "phases": 1}, {"name": "recorded", "share": 1.0}, "arrival"]
)
@pytest.mark.parametrize("engine", ["serial", "vectorized"])
def test_a_stream_of_one_phase_is_the_run_without_it(stream: Any, engine: str) -> None:
    assert same(run(SETTING, engine=engine), run(SETTING, engine=engine, stream=stream))


@pytest.mark.parametrize("name", STREAMS)
def test_engines_agree(name: str) -> None:
    serial, process = (run(SETTING, engine=engine, **STREAMS[name]) for engine in ("serial", "process"))
    assert same(serial, process)
    vectorized = run(SETTING, engine="vectorized", **STREAMS[name])
    assert torch.allclose(serial.weights().parameters, vectorized.weights().parameters, atol=1e-5)


@pytest.mark.parametrize("name", STREAMS)
def test_a_run_that_is_interrupted_within_a_phase_ends_with_the_same_bits(name: str, tmp_path: Any) -> None:
    whole = run(SETTING, out=tmp_path / "whole", **STREAMS[name])
    with pytest.raises(Stopped):
        run(SETTING, out=tmp_path / "cut", on_round=stop_after(4), **STREAMS[name])
    assert bits(resume(tmp_path / "cut").folder) == bits(whole.folder)


def test_a_resumed_run_with_more_rounds_keeps_its_phases(tmp_path: Any) -> None:
    run(SETTING, out=tmp_path / "a", stream="classes")
    longer = resume(tmp_path / "a", rounds=9)
    once = run(SETTING, rounds=9, stream={"name": "classes", "every": 1})
    assert same(longer, once)
    assert longer.records[-1]["phases"]["phase"] == 5


def test_clients_of_a_round_are_there_and_the_draw_without_stream_is_kept() -> None:
    plain = run(SETTING).simulation
    away = run(SETTING, rounds=1, stream={"name": "arrival", "day": 5, "awake": 0.5, "over": 30}).simulation
    full = 0
    for number in range(1, 20):
        there = away.in_round(number)
        chosen, drawn = select(there, number), select(plain, number)
        assert all(there.federation.present(client) for client in chosen)
        everyone = [client for client in range(8) if there.federation.present(client)]
        assert len(chosen) == min(3, len(everyone))
        assert {client for client in drawn if client in everyone} <= set(chosen)
        full += len(chosen) == 3
    assert full > 3


def test_only_some_of_many_clients_are_asked_whether_they_are_there() -> None:
    x, y = np.zeros((10, 3), np.float32), np.arange(10) % 2
    data = from_arrays(x, y, x, y)
    ends = np.arange(1, 20_001)
    many = Federation(data, np.arange(20_000) % 10, np.append(0, ends), ends, ends)
    nobody = {"name": "arrival", "day": 2, "awake": 0.5, "together": 1.0, "over": 9}
    config = make_config({**SETTING, "stream": nobody, "data": "given", "partition": "given"})
    simulation = assemble(config, UserObjects(federation=many))[0]
    for round, found in ((1, 3), (2, 0)):
        there = simulation.in_round(round)
        before = draw_schedule.cache_info().misses
        assert len(select(there, round)) == found
        assert draw_schedule.cache_info().misses - before < 2_500


def test_a_round_without_clients_leaves_the_model_as_it_is() -> None:
    nobody = {"name": "arrival", "day": 2, "awake": 0.5, "together": 1.0}
    done = run(SETTING, stream=nobody)
    clients = [len(record["clients"]) for record in done.records]
    assert clients == [3, 0, 3, 0, 3, 0]
    accuracies = [record["test"]["accuracy"] for record in done.records]
    assert accuracies[0::2] == accuracies[1::2]


def test_phases_are_recorded_and_compared(tmp_path: Any) -> None:
    done = run(SETTING, out=tmp_path / "a", stream={"name": "classes", "phases": 3})
    found = [json.loads(line)["phases"] for line in (tmp_path / "a/metrics.jsonl").read_text().splitlines()]
    assert [one["phase"] for one in found] == [1, 1, 2, 2, 3, 3]
    assert "past" not in found[0]
    assert {"past", "present", "seen", "forgetting", "backward_transfer"} <= found[-1].keys()
    assert "phases.past" in read_run(done.folder).own_metrics


def test_a_sweep_goes_on_in_its_folder_and_tuning_keeps_the_phases(tmp_path: Any) -> None:
    setting = {**SETTING, "stream": "label_drift"}
    for _ in range(2):
        execute(plan(setting, {"training.lr": [0.1]}, [0], tmp_path / "sweep"))
    tune({**setting, "rounds": 8}, {"training.lr": [0.05, 0.1]}, tmp_path / "tune", seeds=[0])
    starts = {path.read_text().split("start = ")[1][0] for path in (tmp_path / "tune").rglob("config.toml")}
    assert starts == {"3"}


def test_remedies_of_a_run_that_drifts_can_be_assembled(tmp_path: Any) -> None:
    simulation = run(SETTING, stream="label_drift").simulation
    config = make_config({**SETTING, "stream": "label_drift", "loss": "wsm"})
    again = assemble(config, UserObjects(federation=simulation.federation))[0]
    assert again.federation.changes is simulation.federation.changes


@pytest.mark.parametrize(
    "changes", [{"stale_counts": 2}, {"training": {"epochs": 1, "label_counts": "seen"}}]
)
def test_counts_of_earlier_rounds_are_those_of_this_one_where_nothing_changes(changes: Any) -> None:
    still = {"name": "classes", "phases": 1}
    plain, recalling = (run(SETTING, loss="wsm", stream=still, **one) for one in ({}, changes))
    assert same(plain, recalling)


def test_old_counts_may_exceed_what_a_client_has_now() -> None:
    flashback = {"name": "flashback", "server_epochs": 0}
    stream = {"name": "classes", "phases": 3}
    done = run(SETTING, participation=8, stream=stream, stale_counts=1, method=flashback)
    assert not any(record["dropped"] for record in done.records)

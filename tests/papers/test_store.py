"""A run in the table of an experiment is the run that was in its folder."""

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eunoe.config.options import Named
from eunoe.config.settings import merge
from eunoe.errors import InputError
from eunoe.simulation.streams import with_streams
from eunoe.store.reader import read_run
from eunoe.store.run_records import RunRecords
from eunoe_papers.experiment import PlannedRun
from eunoe_papers.loader import find_experiment
from eunoe_papers.store import (
    FoundRun,
    StoredRun,
    check_config,
    count_runs,
    find_in_folders,
    find_stored,
    key_of,
    load,
    load_keys,
    path_of,
    read_folder,
    save,
    store_runs,
    without_single_clients,
)
from tests.papers.made_up import store, write_run

EXPERIMENT = find_experiment("fednova-identity")


def planned_runs(out: Path) -> list[PlannedRun]:
    """Two seeds of a line at small scale, one run at full scale, with all that a run may record."""
    runs = [
        *EXPERIMENT.plan("small", [0, 1], only="cifar10 equal fedavg", out=out),
        *EXPERIMENT.plan("full", [0], only="cifar10 equal fedavg", out=out),
    ]
    for run in runs:
        write_run(run, {1: 0.1 + 0.2, 2: 1 / 3})
        files: dict[str, Any] = {
            "partition.json": {"schema": 1, "label_counts": [[3, 0], [1, 2]], "class_names": ["cat", "dog"]},
            "environment.json": {"torch": "2.13", "cores": 2},
            "after.json": {"personal_gain": 0.5},
            "probes.jsonl": {
                "round": 2,
                "probe": "drift",
                "clients": [0, 1],
                "from_start": [0.5, 0.7],
                "apart": 0.8,
                "cosine": None,
            },
        }
        for name, values in files.items():
            (run.folder / name).write_text(json.dumps(values) + "\n")
    return runs


def write_status(run: PlannedRun, state: str) -> None:
    (run.folder / "status.json").write_text(json.dumps({"state": state, "round": 1}))


def same(first: RunRecords, second: RunRecords) -> bool:
    one, two = asdict(first), asdict(second)
    counts = one.pop("label_counts"), two.pop("label_counts")
    del one["timings"], two["timings"]
    return one == two and np.array_equal(*counts)


def test_nothing_that_is_read_gets_lost(tmp_path: Path) -> None:
    runs = planned_runs(tmp_path / "runs")
    path = path_of(tmp_path, EXPERIMENT)
    save(path, [read_folder(run) for run in runs])
    stored = load(path)
    assert [(run.key.scale, run.key.seed) for run in stored] == [("full", 0), ("small", 0), ("small", 1)]
    by_key = {run.key: run for run in stored}
    for run in runs:
        found = by_key[read_folder(run).key]
        assert same(found.records, read_run(run.folder))
        assert found.records.status["reason"] == "1 hours passed"
        assert found.after == {"personal_gain": 0.5}
    assert load_keys(path) == [run.key for run in stored]
    assert [run.key.seed for run in load(path, "small")] == [0, 1]
    assert not load(tmp_path / "none.parquet")


def test_a_diverged_run_without_a_round_is_kept(tmp_path: Path) -> None:
    (run,) = EXPERIMENT.plan("small", [0], only="cifar10 equal fedavg", out=tmp_path)
    write_run(run, {1: 0.1})
    (run.folder / "metrics.jsonl").unlink()
    write_status(run, "diverged")
    store(EXPERIMENT, [run], tmp_path)
    (found,) = find_stored(EXPERIMENT, "small", tmp_path)
    assert found.run.records.status["state"] == "diverged"
    assert not found.run.records.metrics


def test_runs_are_counted_and_those_that_ended_are_stored(tmp_path: Path) -> None:
    own, stored = tmp_path / "runs", tmp_path / "results"
    runs = planned_runs(own)
    assert count_runs(EXPERIMENT, "small", own, stored) == 2
    store(EXPERIMENT, runs[:1], stored)
    assert count_runs(EXPERIMENT, "small", tmp_path / "none", stored) == 1
    assert len(find_in_folders(EXPERIMENT, "small", own)) == 2
    assert len(find_stored(EXPERIMENT, "small", stored)) == 1
    assert not find_stored(EXPERIMENT, "full", stored)
    write_status(runs[1], "running")
    assert len(store_runs(EXPERIMENT, own, stored)) == 2
    keys = load_keys(path_of(stored, EXPERIMENT))
    assert [(key.scale, key.seed) for key in keys] == [("full", 0), ("small", 0)]


def test_a_run_of_another_setting_is_refused(tmp_path: Path) -> None:
    (run,) = EXPERIMENT.plan("small", [0], only="cifar10 equal fedavg", out=tmp_path)
    write_run(replace(run, values=merge(run.values, {"training": {"lr": 0.5}})), {1: 0.1})
    with pytest.raises(InputError, match=r"training\.lr = 0\.5, .* 0\.01"):
        find_in_folders(EXPERIMENT, "small", tmp_path)


def test_numbers_that_are_absent_stay_absent(tmp_path: Path) -> None:
    (run,) = EXPERIMENT.plan("small", [0], only="cifar10 equal fedavg", out=tmp_path)
    write_run(run, {1: 0.1})
    line = {"round": 2, "test": {"accuracy": None, "loss": 1.0, "per_class": [None, 0.5]}}
    with open(run.folder / "metrics.jsonl", "a") as file:
        file.write(json.dumps(line) + "\n")
    store(EXPERIMENT, [run], tmp_path)
    (found,) = find_stored(EXPERIMENT, "small", tmp_path)
    assert math.isnan(found.run.records.curve("accuracy")[1])


def test_the_numbers_of_single_clients_are_left_out() -> None:
    measured = {"accuracy": 0.5, "clients": {"mean": 0.4}, "by_client": {"accuracy": [0.1, 0.9]}}
    record = {"round": 3, "clients": [4], "test": measured, "sent": {"test": measured}, "validation": None}
    left = {"accuracy": 0.5, "clients": {"mean": 0.4}}
    expected = {"round": 3, "clients": [4], "test": left, "sent": {"test": left}, "validation": None}
    assert without_single_clients({**record, "loss_before": [1.0], "update_norms": [0.1]}) == expected
    by_class = {"accuracy": 0.5, "per_class": [0.4, 0.6]}
    assert without_single_clients({"test": by_class, "validation": by_class}) == {
        "test": by_class,
        "validation": {"accuracy": 0.5},
    }


def test_a_run_whose_stream_was_settled_by_its_rounds_is_that_of_the_plan() -> None:
    planned = find_experiment("stream-classes").plan("full", [0])[0]
    ran = with_streams(planned.config)
    assert ran != planned.config
    records = RunRecords("run", [], config=ran.model_dump(mode="json"))
    found = FoundRun(planned, StoredRun(key_of(planned), records))
    check_config(found, Path("here"))
    other = ran.model_copy(update={"stream": (Named.model_validate({"name": "classes", "every": 9}),)})
    again = replace(found.run, records=replace(records, config=other.model_dump(mode="json")))
    with pytest.raises(InputError, match="has stream = "):
        check_config(replace(found, run=again), Path("here"))

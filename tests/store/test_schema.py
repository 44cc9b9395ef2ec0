"""The record schema against what runs write."""

import json
from pathlib import Path
from typing import Any

import pytest

from eunoe.errors import Damaged
from eunoe.simulation.running import run
from eunoe.store import schema

SMALL: dict[str, Any] = {
    "data": "digits",
    "partition": {"name": "dirichlet", "clients": 6, "alpha": 0.3},
    "split": {"validation": 0.2, "test": 0.2},
    "model": "logistic",
    "participation": 3,
    "rounds": 2,
    "engine": "serial",
    "training": {"epochs": 1, "lr": 0.1},
    "evaluation": {"every": 1},
}
PROBED = [{"metric": name, "every": 1} for name in ("client_matrix", "local_per_class", "drift")]
CHANGES: dict[str, dict[str, Any]] = {
    "plain": {"probes": PROBED, "evaluation": {"every": 1, "personal": 5}},
    "averaged": {"averaging": {"last": 2}},
    "secure": {"secure_aggregation": {}},
    "server": {
        "method": "feddf",
        "public": {"share": 0.2},
        "probes": [{"metric": "probability", "every": 1}],
    },
    "regression": {"data": "diabetes", "partition": {"name": "iid", "clients": 3}},
}


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("name", CHANGES)
def test_runs_write_no_other_keys(tmp_path: Path, name: str) -> None:
    run({**SMALL, **CHANGES[name]}, out=tmp_path / "run")
    folder = tmp_path / "run"
    records = lines(folder / "metrics.jsonl")
    for record in records:
        assert record.keys() <= schema.RECORDED
        assert {"schema", "round", "validation"} <= record.keys()
        for section in ("validation", "client_test", "test"):
            assert (record.get(section) or {}).keys() <= set(schema.BY_SET)
        assert (record.get("sent") or {}).keys() <= schema.ModelRecord.__annotations__.keys()
        for key, kind in NESTED.items():
            assert (record.get(key) or {}).keys() <= kind.__annotations__.keys()
    for probe in lines(folder / "probes.jsonl"):
        assert probe.keys() == schema.PROBES[probe["probe"]].__annotations__.keys()
    for file, kind in FILES.items():
        for record in lines(folder / file):
            assert record.keys() <= kind.__annotations__.keys()


NESTED: dict[str, Any] = {
    "forgetting": schema.ForgettingRecord,
    "means": schema.MeansRecord,
    "personal": schema.PersonalRecord,
}
FILES: dict[str, Any] = {
    "timings.jsonl": schema.TimingRecord,
    "partition.json": schema.PartitionRecord,
    "status.json": schema.StatusRecord,
}


def test_the_meaning_of_a_key_names_the_keys_nested_in_it() -> None:
    for record, kinds in (
        (schema.RoundRecord, {**NESTED, "privacy": schema.PrivacyRecord, "dropped": schema.DroppedClient}),
        (schema.EvaluationRecord, {"clients": schema.SpreadRecord, "by_client": schema.ByClientRecord}),
        (schema.LocalPerClassRecord, {"loss": schema.StepLosses}),
    ):
        meanings = schema.describe(schema.ModelRecord) | schema.describe(record)
        for key, kind in kinds.items():
            assert all(f"`{name}`" in meanings[key] for name in kind.__annotations__), key


def test_a_value_of_another_type_is_refused_where_it_was_read() -> None:
    known = {"round": 1, "own": object(), "test": {"accuracy": None, "further": 1}}
    assert schema.validate(known, schema.RoundRecord, "here") is known
    with pytest.raises(Damaged, match=r"here: .*test.accuracy.*; restore the file"):
        schema.validate({"test": {"accuracy": "high"}}, schema.RoundRecord, "here")

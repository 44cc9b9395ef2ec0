"""A run that was begun under earlier names can be shown, stored and resumed."""

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from tools.migrate import convert_config, convert_run, convert_tree
from tools.published import add

import eunoe
from eunoe.config.toml import to_toml
from eunoe.papers import find_exhibit
from eunoe.papers.found import in_store
from eunoe.papers.store import load_keys
from eunoe.system.tensor_files import read_tensors
from tests.papers.made_up import write_run

OLD_NAMES = {"parameters": "parameters", "float_buffers": "floats", "int_buffers": "integers"}


def old_config(values: dict[str, Any]) -> dict[str, Any]:
    """A config in the earlier words."""
    old = {**values, "training": dict(values.get("training", {}))}
    for new, word in {"optimizer": "optimiser", "single_class": "unlearnable"}.items():
        if new in old["training"]:
            old["training"][word] = old["training"].pop(new)
    step = old.pop("server_optimizer", {"name": "sgd"})
    old["server_step"] = {**step, "name": {"sgd": "average", "momentum": "avgm"}[step["name"]]}
    if old.get("data", {}).get("name") == "eunoe.papers.part:part":
        old["data"] = {**old["data"], "name": "eunoe.recipes.part:part"}
    return old


def old_vector_name(name: str) -> str:
    """The name of a checkpoint's vector in the earlier words."""
    group, _, rest = name.partition("/")
    if group == "clients":
        return rest
    return f"{group} {OLD_NAMES[rest] if group in ('weights', 'best') else rest}"


def make_old(folder: Path) -> None:
    """Turn a run folder into one of the earlier words."""
    config = folder / "config.toml"
    config.write_text(to_toml(old_config(tomllib.loads(config.read_text()))))
    for path in folder.glob("checkpoints/*.safetensors"):
        vectors, metadata = read_tensors(path)
        del vectors["clients/digests"]
        facts = json.loads(metadata["facts"])
        facts["lengths"] = {name: mark["bytes"] for name, mark in facts["files"].items()}
        for later in ("files", "config", "healthy", "norms"):
            del facts[later]
        old = {old_vector_name(name): value for name, value in vectors.items()}
        save_file(old, path, {"facts": json.dumps(facts)})
    for path in folder.glob("states/*/*.safetensors"):
        state = load_file(path)
        save_file({OLD_NAMES.get(name, name): value for name, value in state.items()}, path)


@pytest.mark.parametrize("server", ["sgd", "momentum"])
def test_a_run_goes_on_where_it_was(tmp_path: Path, server: str) -> None:
    values: dict[str, Any] = {
        "rounds": 4,
        "partition": {"name": "dirichlet", "clients": 4, "alpha": 0.5},
        "participation": 0.5,
        "model": {"name": "mlp", "head": True},
        "training": {"epochs": 1, "batch_size": 32, "lr": 0.1},
        "method": {"name": "moon", "mu": 1.0},
        "server_optimizer": {"name": server},
        "engine": {"name": "serial"},
        "checkpoint_seconds": 0,
    }
    eunoe.run(values, out=tmp_path / "whole")
    eunoe.run({**values, "rounds": 2}, out=tmp_path / "old")
    make_old(tmp_path / "old")
    assert list((tmp_path / "old").glob("states/*/*"))
    convert_run(tmp_path / "old", tmp_path / "new")
    eunoe.resume(tmp_path / "new", {"rounds": 4})
    whole, resumed = ((tmp_path / name / "metrics.jsonl").read_bytes() for name in ("whole", "new"))
    assert resumed == whole


def test_configs_are_in_todays_words() -> None:
    old = {
        "data": {"name": "eunoe.recipes.part:part", "of": "cifar10", "limit": 5},
        "training": {"lr": 0.1, "optimiser": "adam", "unlearnable": "skip"},
        "server_step": {"name": "avgm", "lr": 0.5},
        "engine": {"name": "vectorised", "cohort": 4},
    }
    new = {
        "data": {"name": "eunoe.papers.part:part", "of": "cifar10", "limit": 5},
        "training": {"lr": 0.1, "optimizer": "adam", "single_class": "skip"},
        "server_optimizer": {"name": "momentum", "lr": 0.5},
        "engine": {"name": "vectorized", "cohort": 4},
    }
    assert convert_config(old) == new
    assert convert_config(new) == new


def test_ended_runs_of_exhibits_are_stored(tmp_path: Path) -> None:
    exhibit = find_exhibit("wsm-personalization-lenet")
    first, second = exhibit.plan("small", [0, 1], out=tmp_path / "old")
    for run in (first, second):
        write_run(run, {60: 0.3})
        make_old(run.folder)
    (second.folder / "status.json").write_text(json.dumps({"state": "running", "round": 3}))
    (tmp_path / "old" / exhibit.name).rename(tmp_path / "old" / "wsm-personalisation-lenet")
    folders = convert_tree(tmp_path / "old", tmp_path / "new")
    assert [folder.relative_to(tmp_path / "new").parts[0] for folder in folders] == [exhibit.name] * 2
    assert add(tmp_path / "new", tmp_path / "results") == 1
    assert [key.seed for key in load_keys(tmp_path / "results/runs/wsm-personalization-lenet.parquet")] == [0]
    (found,) = in_store(exhibit, "small", tmp_path / "results")
    assert found.run.records.config["server_optimizer"]["name"] == "sgd"

"""Checkpoints with a valid digest that no run has written."""

import json
import resource
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from eunoe.errors import InputError
from eunoe.simulation.run import Run
from eunoe.simulation.running import resume, run
from eunoe.store.checkpoints import list_checkpoints
from eunoe.store.reader import changed_files
from eunoe.system.tensor_files import digest, read_tensors
from tests.small_runs import FAST

Craft = Callable[[Callable[[dict[str, Any], dict[str, Any]], object]], Path]
ODD: list[Any] = [None, "x", [[1]]]


@pytest.fixture(scope="module", name="whole")
def make_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values = {**FAST, "rounds": 1, "method": "scaffold"}
    return run(values, out=tmp_path_factory.mktemp("run") / "run", progress=False).folder


@pytest.fixture(name="craft")
def make_craft(whole: Path, tmp_path: Path) -> Craft:
    def craft(change: Callable[[dict[str, Any], dict[str, Any]], object]) -> Path:
        """A copy of the run whose only checkpoint has other facts or tensors, with a valid digest."""
        folder = tmp_path / "run"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        *others, path = list_checkpoints(folder)
        for other in others:
            other.unlink()
        vectors, metadata = read_tensors(path)
        facts = json.loads(metadata["facts"])
        change(facts, vectors)
        text = json.dumps(facts)
        save_file(vectors, path, {"facts": text, "sha256": digest(vectors, text)})
        return folder

    return craft


def refuse(folder: Path) -> None:
    for read in (lambda: resume(folder, rounds=2, progress=False), lambda: Run(folder).weights()):
        with pytest.raises(InputError):
            read()


@pytest.mark.parametrize("key", ["metrics", "round", "seconds", "best_accuracy", "norms", "files", "healthy"])
def test_facts_of_another_type(craft: Craft, key: str) -> None:
    for value in ODD:
        refuse(craft(lambda facts, _, value=value: facts.update({key: value})))  # type: ignore[misc]


@pytest.mark.parametrize("text", ["x", "[", "rounds = 'x'"])
def test_a_config_that_is_none(craft: Craft, text: str) -> None:
    with pytest.raises(InputError):
        resume(craft(lambda facts, _: facts.update(config=text)), rounds=2, progress=False)


def test_vectors_that_are_missing_or_of_another_form(craft: Craft, whole: Path) -> None:
    for name in read_tensors(list_checkpoints(whole)[-1])[0]:
        for value in (None, torch.zeros(3, 2)):

            def change(_: object, vectors: dict[str, Any], name: str = name, value: Any = value) -> None:
                del vectors[name]
                vectors |= {} if value is None else {name: value}

            folder = craft(change)
            # A metric may do without a vector.
            with suppress(InputError) if name.startswith("metric") else pytest.raises(InputError):
                resume(folder, rounds=2, progress=False)


def test_a_length_below_zero_does_not_read_a_whole_file(craft: Craft) -> None:
    folder = craft(lambda facts, _: facts["files"]["metrics.jsonl"].update(bytes=-1))
    with (folder / "metrics.jsonl").open("ab") as file:
        file.truncate(2**31)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert "metrics.jsonl" in changed_files(folder, {})
    refuse(folder)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 2**20

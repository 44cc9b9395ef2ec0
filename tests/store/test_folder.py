"""The run folder: what is written, cut back, locked, and read again after anything that can happen."""

import json
import math
import multiprocessing
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from eunoe.engines.client_states import ClientStates
from eunoe.errors import InputError, RunFailed
from eunoe.store.checkpoints import RunState, list_checkpoints, newest_checkpoint, start_state
from eunoe.store.folder import RunFolder, check_new
from eunoe.store.reader import read_run_config
from eunoe.system.files import plain
from tests.helpers import make_simulation
from tests.store.made_folders import everything, lines, restored, state_at, weights, write_rounds
from tests.waiting import PATIENCE, until


def test_a_run_state_comes_back_from_its_checkpoint_bit_for_bit(begun: Path) -> None:
    run_state, states, warnings = restored(begun)
    assert warnings == []
    assert states.accepted == {7: 5}
    assert states.load(7)["memory"].item() == 5
    expected = state_at(5)
    for name in ("round", "best_accuracy", "seconds"):
        assert getattr(run_state, name) == getattr(expected, name)
    plainly, mixed = run_state.metrics["plain"], run_state.metrics["mixed"]
    assert plainly["previous"][0] == 0.5
    assert math.isnan(plainly["previous"][1])
    assert (plainly["round"], plainly["best"]) == (5, None)
    assert mixed["names"] == {"a": [1, "b"]}
    assert mixed["mean"].dtype == torch.float64
    assert torch.equal(mixed["mean"], expected.metrics["mixed"]["mean"])
    assert set(run_state.server) == {"momentum", "empty"}
    assert run_state.server["momentum"].dtype == torch.float64
    for mine, theirs in ((run_state.weights, expected.weights), (run_state.best, expected.best)):
        assert mine is not None
        assert theirs is not None
        assert torch.equal(mine.parameters, theirs.parameters)
        assert torch.equal(mine.float_buffers, theirs.float_buffers)
        assert torch.equal(mine.int_buffers, theirs.int_buffers)


def test_metrics_may_remember_the_same_tensor(tmp_path: Path) -> None:
    run_state, shared = state_at(1), torch.arange(3.0)
    run_state.metrics = {"one": {"values": shared}, "other": {"values": shared}}
    with RunFolder(tmp_path) as folder:
        folder.checkpoint(run_state, ClientStates(tmp_path / "states"))
    again = restored(tmp_path)[0].metrics
    assert torch.equal(again["one"]["values"], shared)
    assert torch.equal(again["other"]["values"], shared)


@pytest.mark.parametrize("value", [np.zeros(2), {1, 2}, object()])
def test_what_a_checkpoint_cannot_hold_of_a_metric_is_refused_by_name(tmp_path: Path, value: Any) -> None:
    run_state = state_at(1)
    run_state.metrics = {"mine": {"seen": value}}
    with (
        RunFolder(tmp_path) as folder,
        pytest.raises(InputError, match=r"state\(\) of metric 'mine' must be"),
    ):
        folder.checkpoint(run_state, ClientStates(tmp_path / "states"))
    assert list_checkpoints(tmp_path) == []


def test_the_last_two_checkpoints_and_what_they_need_are_kept(begun: Path) -> None:
    assert [path.stem for path in list_checkpoints(begun)] == ["00000004", "00000005"]
    assert {path.name for path in begun.glob("states/*/*")} == {"7-4.safetensors", "7-5.safetensors"}
    assert not list(begun.rglob("*.part"))


def test_what_came_after_the_checkpoint_is_cut_off(begun: Path) -> None:
    before = {
        name: (begun / name).read_bytes() for name in ("metrics.jsonl", "timings.jsonl", "probes.jsonl")
    }
    states = ClientStates(begun / "states")
    states.accept(7, 5)
    with RunFolder(begun) as folder:
        write_rounds(folder, states, range(6, 8), checkpoint=False)
    with open(begun / "metrics.jsonl", "a") as file:
        file.write('{"round": 8, "los')
    run_state, states, _ = restored(begun)
    assert run_state.round == 5
    assert {name: (begun / name).read_bytes() for name in before} == before
    # The older checkpoint is still there, and so is what it needs.
    assert {path.name for path in begun.glob("states/*/*")} == {"7-4.safetensors", "7-5.safetensors"}
    with RunFolder(begun) as folder:
        run_state, states = RunState(weights(0), {}), ClientStates(begun / "states")
        folder.restore(run_state, states)
        write_rounds(folder, states, range(6, 8))
    assert {path.name for path in begun.glob("states/*/*")} == {"7-6.safetensors", "7-7.safetensors"}
    assert restored(begun)[0].round == 7


@pytest.mark.parametrize("damage", ["truncated", "empty", "nonsense"])
def test_a_broken_newest_checkpoint_gives_way_to_the_one_before(begun: Path, damage: str) -> None:
    newest = list_checkpoints(begun)[-1]
    whole = newest.read_bytes()
    newest.write_bytes({"truncated": whole[: len(whole) // 2], "empty": b"", "nonsense": b"x" * 99}[damage])
    run_state, states, warnings = restored(begun)
    assert run_state.round == 4
    assert len(warnings) == 1
    assert "00000005" in warnings[0]
    assert "using the previous checkpoint" in warnings[0]
    assert [line["round"] for line in lines(begun)] == [1, 2, 3, 4]
    assert states.accepted == {7: 4}
    assert states.load(7)["memory"].item() == 4
    assert [path.stem for path in list_checkpoints(begun)] == ["00000004"]


@pytest.mark.parametrize("damage", ["broken", "removed", "removed with the status"])
def test_a_run_whose_checkpoints_are_gone_is_refused_and_keeps_its_records(begun: Path, damage: str) -> None:
    if damage == "broken":
        for path in list_checkpoints(begun):
            path.write_bytes(b"")
    else:
        shutil.rmtree(begun / "checkpoints")
    if damage == "removed with the status":
        (begun / "status.json").unlink()
    before = everything(begun)
    with pytest.raises(InputError, match="it has records but no valid checkpoint"):
        restored(begun)
    assert everything(begun) == before


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), MemoryError(), RuntimeError("torch's")])
def test_a_checkpoint_that_cannot_be_read_for_now_is_not_broken(
    begun: Path, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: Any) -> None:
        raise error

    before = everything(begun)
    monkeypatch.setattr("eunoe.system.tensor_files.safe_open", fail)
    with pytest.raises(RunFailed, match=r"cannot read .*00000005"):
        restored(begun)
    assert everything(begun) == before


def test_a_broken_checkpoint_from_before_the_first_round_costs_nothing(tmp_path: Path) -> None:
    with RunFolder(tmp_path) as folder:
        folder.checkpoint(state_at(0), ClientStates(tmp_path / "states"))
    list_checkpoints(tmp_path)[0].write_bytes(b"")
    run_state, _, warnings = restored(tmp_path)
    assert run_state.round == 0
    assert warnings[-1] == "no checkpoint can be read: starting over"


def test_a_run_that_was_interrupted_before_its_first_checkpoint_begins_again(tmp_path: Path) -> None:
    states = ClientStates(tmp_path / "states")
    with RunFolder(tmp_path) as folder:
        write_rounds(folder, states, range(1, 3), checkpoint=False)
        folder.write_status("interrupted")
    run_state, states, warnings = restored(tmp_path)
    assert (run_state.round, warnings, lines(tmp_path)) == (0, [], [])


def test_a_half_written_checkpoint_is_not_looked_at(begun: Path) -> None:
    for name in ("checkpoints/00000006.safetensors.7.part", "status.json.7.part"):
        (begun / name).write_bytes(b"half")
    assert restored(begun)[0].round == 5
    assert not list(begun.rglob("*.part"))


def test_reading_a_run_state_changes_nothing(begun: Path) -> None:
    with open(begun / "metrics.jsonl", "a") as file:
        file.write("more")
    before = everything(begun)
    assert newest_checkpoint(begun)[0] is not None
    assert everything(begun) == before


def test_what_is_not_finite_is_null_in_json(begun: Path) -> None:
    assert lines(begun)[0] == {"round": 1, "loss": None}
    assert plain({"a": (math.inf, [math.nan, 1.0]), "b": {"c": -math.inf}}) == {
        "a": [None, [None, 1.0]],
        "b": {"c": None},
    }


def test_arrays_are_lists_in_json() -> None:
    assert plain({"a": np.array([[1.0, math.nan]]), "b": np.float64("nan"), "c": np.arange(2)}) == {
        "a": [[1.0, None]],
        "b": None,
        "c": [0, 1],
    }


def test_the_records_so_far(begun: Path, tmp_path: Path) -> None:
    with RunFolder(begun) as folder:
        assert [record["round"] for record in folder.records()] == [1, 2, 3, 4, 5]
    with RunFolder(tmp_path / "new") as folder:
        assert list(folder.records()) == []


def test_a_kill_during_the_first_write_leaves_a_folder_that_is_still_new(tmp_path: Path) -> None:
    for name in (".lock", "config.toml.7.part"):
        (tmp_path / name).write_text("")
    check_new(tmp_path)
    (tmp_path / "film.part").write_text("precious")
    with pytest.raises(InputError, match="is not empty and has no run"):
        check_new(tmp_path)


def test_two_cannot_write_to_one_folder(tmp_path: Path) -> None:
    with RunFolder(tmp_path), pytest.raises(InputError, match="another process is running in"):
        RunFolder(tmp_path)
    with RunFolder(tmp_path):
        pass


def test_a_forked_process_does_not_hold_the_lock(tmp_path: Path) -> None:
    with RunFolder(tmp_path):
        child = multiprocessing.get_context("fork").Process(
            target=time.sleep, args=(2 * PATIENCE,), daemon=True
        )
        child.start()
    until(lambda: not is_locked(tmp_path))
    assert child.is_alive()
    child.kill()
    child.join()


def is_locked(path: Path) -> bool:
    try:
        with RunFolder(path):
            return False
    except InputError:
        return True


@pytest.mark.parametrize("where", ["file", "file/run", "/proc/run"])
def test_a_folder_that_cannot_be_written_to(tmp_path: Path, where: str) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot write to the folder"):
        RunFolder(tmp_path / where)


def test_config_and_partition_can_be_read_by_others(tmp_path: Path) -> None:
    simulation = make_simulation()
    with RunFolder(tmp_path) as folder:
        folder.write_config({"name": 'Größe "猫"\n', "method": {"name": "x", "ö": 1}})
        folder.write_partition(simulation.federation)
        folder.write_status("running", "", 1.5)
    assert read_run_config(tmp_path) == {"name": 'Größe "猫"\n', "method": {"name": "x", "ö": 1}}
    counts = json.loads((tmp_path / "partition.json").read_text())["label_counts"]
    assert [sum(row) for row in counts] == simulation.federation.sizes.tolist()
    assert json.loads((tmp_path / "status.json").read_text())["seconds"] == 1.5


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a run folder"):
        read_run_config(tmp_path)
    (tmp_path / "config.toml").write_bytes(b"\xff")
    with pytest.raises(InputError, match=r"is not text in UTF-8 \(byte 0\)"):
        read_run_config(tmp_path)
    (tmp_path / "config.toml").write_text("a = ")
    with pytest.raises(InputError, match="is not valid TOML"):
        read_run_config(tmp_path)


def test_the_start_of_a_real_method_survives(tmp_path: Path) -> None:
    simulation = make_simulation(server_optimizer="adam")
    run_state = start_state(simulation)
    run_state.round = 1
    with RunFolder(tmp_path) as folder:
        folder.checkpoint(run_state, ClientStates(tmp_path / "states"))
    again = start_state(simulation)
    saved, _ = newest_checkpoint(tmp_path)
    assert saved is not None
    saved.load(again)
    assert set(again.server) == set(run_state.server) != set()
    assert all(torch.equal(again.server[name], run_state.server[name]) for name in run_state.server)


def test_a_model_of_another_size_is_refused(begun: Path) -> None:
    with pytest.raises(InputError, match=r"model has 75 parameters, but the run in .* has 4"):
        RunFolder(begun).restore(start_state(make_simulation()), ClientStates(begun / "states"))

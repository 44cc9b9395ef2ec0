"""Lost and changed bytes in a run folder: noticed before anything is removed, and reported."""

import os
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from eunoe.engines.client_states import ClientStates
from eunoe.errors import Damaged, InputError
from eunoe.store.checkpoints import RunState, list_checkpoints, read_checkpoint
from eunoe.store.folder import RunFolder
from tests.store.made_folders import everything, lines, restored, state_at, weights, write_rounds


def change(path: Path, damage: str) -> None:
    """Damage a file of lines or tensors."""
    content = path.read_bytes()
    lines = content.splitlines(keepends=True)
    path.write_bytes(
        {
            "emptied": b"",
            "cut": content[: len(content) // 2],
            "bit": content[:-9] + bytes([content[-9] ^ 1]) + content[-8:],
            "line missing": b"".join(lines[:2] + lines[3:]),
            "line doubled": b"".join(lines[:2] + lines[1:2] + lines[2:]),
            "lines swapped": b"".join([*lines[:1], *lines[2:0:-1], *lines[3:]]),
        }[damage]
    )


@pytest.mark.parametrize("name", ["metrics.jsonl", "probes.jsonl", "timings.jsonl"])
@pytest.mark.parametrize("damage", ["emptied", "cut", "line missing", "line doubled", "lines swapped"])
def test_records_that_are_not_what_was_written_are_refused_and_stay(
    begun: Path, name: str, damage: str
) -> None:
    change(begun / name, damage)
    before = everything(begun)
    with pytest.raises(InputError, match=rf"no valid checkpoint \(.*{name}") as caught:
        restored(begun)
    assert "\n" not in str(caught.value)
    assert everything(begun) == before


def test_a_changed_last_line_costs_one_checkpoint(begun: Path) -> None:
    change(begun / "metrics.jsonl", "bit")
    run_state, _, warnings = restored(begun)
    assert run_state.round == 4
    assert len(warnings) == 1
    assert (
        "metrics.jsonl changed since it was written (SHA-256 mismatch); using the previous checkpoint"
        in warnings[0]
    )


@pytest.mark.parametrize("damage", ["emptied", "cut", "bit", "gone"])
def test_a_damaged_state_gives_way_to_the_checkpoint_before(begun: Path, damage: str) -> None:
    path = begun / "states/0/7-5.safetensors"
    path.unlink() if damage == "gone" else change(path, damage)
    run_state, states, warnings = restored(begun)
    assert (run_state.round, states.load(7)["memory"].item()) == (4, 4.0)
    assert len(warnings) == 1
    assert "7-5.safetensors" in warnings[0]
    assert [line["round"] for line in lines(begun)] == [1, 2, 3, 4]


def test_no_flipped_bit_of_a_checkpoint_goes_unnoticed(begun: Path) -> None:
    path = list_checkpoints(begun)[-1]
    content = path.read_bytes()
    whole = read_checkpoint(path)
    for place in [*range(0, len(content), 7), len(content) - 1]:
        path.write_bytes(content[:place] + bytes([content[place] ^ 2]) + content[place + 1 :])
        with suppress(Damaged):
            found = read_checkpoint(path)
            # The header ends in blanks, which mean nothing.
            assert (found.facts, found.manifest) == (whole.facts, whole.manifest)
            assert found.vectors.keys() == whole.vectors.keys()
            assert all(torch.equal(found.vectors[name], whole.vectors[name]) for name in whole.vectors)


def test_going_back_to_a_round(begun: Path) -> None:
    before = everything(begun)
    with RunFolder(begun) as folder, pytest.raises(InputError, match=r"no checkpoint of round 2; .*: 4, 5"):
        folder.restore(RunState(weights(0), {}), ClientStates(begun / "states"), from_round=2)
    assert everything(begun) == before
    run_state, states = RunState(weights(0), {}), ClientStates(begun / "states")
    with RunFolder(begun) as folder:
        assert folder.restore(run_state, states, from_round=4) == []
    assert (run_state.round, states.accepted) == (4, {7: 4})
    assert [line["round"] for line in lines(begun)] == [1, 2, 3, 4]
    assert [path.stem for path in list_checkpoints(begun)] == ["00000004"]


def test_the_last_healthy_checkpoint_and_its_states_are_kept(tmp_path: Path) -> None:
    states = ClientStates(tmp_path / "states")
    with RunFolder(tmp_path) as folder:
        write_rounds(folder, states, range(1, 4))
        for round in range(4, 9):
            write_rounds(folder, states, range(round, round + 1), checkpoint=False)
            folder.checkpoint(state_at(round), states, healthy=False)
        assert folder.go_back() == f"eunoe run --resume {tmp_path} --from-round 3"
    kept = {"7-3.safetensors", "7-7.safetensors", "7-8.safetensors"}
    assert [path.stem for path in list_checkpoints(tmp_path)] == ["00000003", "00000007", "00000008"]
    assert {path.name for path in tmp_path.glob("states/*/*")} == kept
    assert restored(tmp_path)[0].round == 8
    assert {path.name for path in tmp_path.glob("states/*/*")} == kept
    run_state, states = RunState(weights(0), {}), ClientStates(tmp_path / "states")
    with RunFolder(tmp_path) as folder:
        folder.restore(run_state, states, from_round=3)
    assert states.load(7)["memory"].item() == 3


def test_what_a_checkpoint_needs_is_on_the_disk_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced = list[str]()
    monkeypatch.setattr("os.fsync", lambda file: synced.append(os.readlink(f"/proc/self/fd/{file}")))
    states = ClientStates(tmp_path / "states")
    with RunFolder(tmp_path) as folder:
        write_rounds(folder, states, range(1, 2))
    place = next(i for i, path in enumerate(synced) if "00000001.safetensors" in path)
    needed = [
        "metrics.jsonl",
        "probes.jsonl",
        "timings.jsonl",
        "states/0/7-1.safetensors",
        "states/0",
        "states",
    ]
    assert {str(tmp_path / name) for name in needed} | {str(tmp_path)} <= set(synced[:place])
    assert synced[place + 1] == str(tmp_path / "checkpoints")

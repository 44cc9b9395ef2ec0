"""What clients keep: a state counts once it is accepted, and files go when no checkpoint needs them."""

from pathlib import Path

import pytest
import torch

from eunoe.engines.client_states import ClientStates
from eunoe.errors import Damaged
from eunoe.system.files import replacing


@pytest.fixture
def states(tmp_path: Path) -> ClientStates:
    return ClientStates(tmp_path / "states")


def value(number: float) -> dict[str, torch.Tensor]:
    return {"memory": torch.tensor([number, number], dtype=torch.float64)}


def files(states: ClientStates) -> set[str]:
    return {path.name for path in states.folder.rglob("*") if path.is_file()}


def test_a_state_counts_only_once_it_is_accepted(states: ClientStates) -> None:
    assert states.load(3) == {}
    states.save(3, 1, value(1))
    assert states.load(3) == {}
    states.accept(3, 1)
    assert torch.equal(states.load(3)["memory"], value(1)["memory"])
    states.save(3, 2, value(2))
    assert states.load(3)["memory"][0] == 1
    assert states.load(3, 2)["memory"][0] == 2
    states.accept(3, 2)
    assert states.load(3)["memory"][0] == 2


def test_a_refused_update_leaves_the_state_as_it_was(states: ClientStates) -> None:
    states.save(3, 1, value(1))
    states.accept(3, 1)
    states.save(3, 2, value(2))
    states.discard(3, 2)
    states.discard(4, 2)
    assert files(states) == {"3-1.safetensors"}
    assert states.load(3)["memory"][0] == 1


def test_a_client_that_keeps_nothing_writes_nothing(states: ClientStates) -> None:
    states.save(3, 1, {})
    states.accept(3, 1)
    assert states.accepted == {}
    assert not states.folder.exists()


def test_files_go_when_no_kept_checkpoint_needs_them(states: ClientStates) -> None:
    for round in (1, 4, 6):
        states.save(3, round, value(round))
        states.accept(3, round)
    states.prune([3, 5])
    assert files(states) == {"3-1.safetensors", "3-4.safetensors", "3-6.safetensors"}
    states.prune([4, 6])
    assert files(states) == {"3-4.safetensors", "3-6.safetensors"}
    states.prune([2, 6])
    assert files(states) == {"3-6.safetensors"}


def test_strays_of_an_interrupted_run_are_removed(states: ClientStates) -> None:
    states.save(3, 1, value(1))
    states.save(2500, 2, value(2))
    (states.folder / "0" / "7-9.safetensors.123.part").write_text("half")
    states.restore({2500: 2}, {2500: b""})
    assert files(states) == {"2500-2.safetensors"}


def test_what_is_not_ours_is_left_alone(states: ClientStates) -> None:
    states.save(3, 1, value(1))
    others = [states.folder / "0" / name for name in ("notes.txt", "7-9.part", "3-1.safetensors.bak")]
    for path in others:
        path.write_text("not ours")
    (states.folder / "0" / "4-1.safetensors").mkdir()
    (states.folder / "0" / "4-1.safetensors" / "5-1.safetensors").write_text("not ours")
    (states.folder / "0" / "6-1.safetensors").symlink_to(others[0])
    states.restore({}, {})
    assert files(states) == {path.name for path in others} | {"5-1.safetensors", "6-1.safetensors"}


@pytest.mark.parametrize("linked", ["states", "states/0"])
def test_nothing_is_removed_through_a_link(states: ClientStates, tmp_path: Path, linked: str) -> None:
    for round in (1, 2, 3):
        states.save(3, round, value(round))
        states.accept(3, round)
    link, elsewhere = tmp_path / linked, tmp_path / "elsewhere"
    link.rename(elsewhere)
    link.symlink_to(elsewhere)
    states.discard(3, 3)
    states.prune([3])
    states.remove_older(3, 3, None)
    states.restore({}, {})
    names = {f"3-{round}.safetensors" for round in (1, 2, 3)}
    assert {path.name for path in elsewhere.rglob("*.safetensors")} == names


def test_what_an_older_checkpoint_needs_stays_until_it_goes(states: ClientStates) -> None:
    for client, round in ((3, 1), (3, 4), (3, 6), (5, 2)):
        states.save(client, round, value(round))
    states.restore({3: 6, 5: 2}, {}, older=[{3: 4}])
    assert files(states) == {"3-4.safetensors", "3-6.safetensors", "5-2.safetensors"}
    states.prune([5, 6])
    assert files(states) == {"3-4.safetensors", "3-6.safetensors", "5-2.safetensors"}
    states.prune([6, 7])
    assert files(states) == {"3-6.safetensors", "5-2.safetensors"}


@pytest.mark.parametrize("damage", ["bit", "empty", "gone", "another's"])
def test_a_state_that_is_not_what_was_written_is_refused(states: ClientStates, damage: str) -> None:
    for client in (3, 4):
        states.save(client, 1, value(client))
        states.accept(client, 1)
    states.sync()
    states.check(states.accepted, states.digests)
    path = states.path(3, 1)
    content = bytearray(path.read_bytes())
    if damage == "bit":
        content[-1] ^= 1
    path.write_bytes({"empty": b"", "another's": states.path(4, 1).read_bytes()}.get(damage, bytes(content)))
    if damage == "gone":
        path.unlink()
    with pytest.raises(Damaged, match=r"3-1\.safetensors (is missing|changed since it was written)"):
        states.check(states.accepted, states.digests)


def test_no_folder_holds_more_than_a_thousand_clients(states: ClientStates) -> None:
    assert states.path(999, 1).parent != states.path(1000, 1).parent
    assert len({states.path(client, 1).parent for client in range(3000)}) == 3


def test_a_worker_that_outlives_its_run_may_write_the_same_state(
    states: ClientStates, monkeypatch: pytest.MonkeyPatch
) -> None:
    states.save(3, 1, value(1))
    path = states.path(3, 1)
    content = path.read_bytes()
    with replacing(path) as theirs:
        theirs.write_bytes(content)
        monkeypatch.setattr("os.getpid", lambda: -1)
        states.save(3, 1, value(1))
    assert path.read_bytes() == content
    assert files(states) == {"3-1.safetensors"}

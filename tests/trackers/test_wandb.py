"""Weights & Biases: what is in its files afterwards is what the run recorded."""

import json
import struct
from pathlib import Path
from typing import Any

import pytest

from eunoe.errors import Outcome
from eunoe.trackers.wandb import WandB
from tests.trackers.noted import tracked


def test_wandb_offline_has_the_scalars_and_figures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import wandb

    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    made = tracked(tmp_path / "run", {"name": "wandb", "project": "trial", "offline": True})
    wandb.teardown()  # Until then not all need be on the disk.
    (folder,) = (tmp_path / "run/track/wandb").glob("offline-run-*")
    assert folder.name.endswith((tmp_path / "run/track/id").read_text())
    (file,) = folder.glob("*.wandb")
    records = list(wandb_records(file.read_bytes()))
    (started,) = [record.run for record in records if record.HasField("run")]
    assert (started.project, started.display_name) == ("trial", made.config.title)
    found = {}
    for record in records:
        row = {"/".join(item.nested_key) or item.key: item for item in record.history.item}
        if "test/accuracy" in row:
            found[json.loads(row["_step"].value_json)] = json.loads(row["test/accuracy"].value_json)
    assert found == {record["round"]: record["test"]["accuracy"] for record in made.records}
    drawn = [path.name for path in (folder / "files/media/images/figures").glob("*.png")]
    assert any(name.startswith("accuracy_3") for name in drawn)


def wandb_records(data: bytes) -> Any:
    """The records of an offline run: after 7 bytes, a LevelDB log (blocks of 32 KiB, 7-byte headers)."""
    from wandb.proto.wandb_internal_pb2 import Record

    at, held = 7, b""
    while at + 7 <= len(data):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        _, length, kind = struct.unpack_from("<IHB", data, at)
        held += data[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):
            yield Record.FromString(held)
            held = b""


def test_wandb_tells_runs_that_failed_from_those_that_finished() -> None:
    codes: list[int] = []

    class Told:
        def finish(self, exit_code: int) -> None:
            codes.append(exit_code)

    tracker = WandB()
    tracker._run = Told()
    outcomes: tuple[Outcome, ...] = ("finished", "interrupted", "diverged", "failed")
    for outcome in outcomes:
        tracker.close(outcome)
    # What wandb itself gives a script that ends so.
    assert codes == [0, 255, 1, 1]

"""The run folder: everything needed to repeat, resume and inspect a run.

    config.toml         the resolved configuration
    environment.json    versions, CPU, git commit, hashes of data and partition
    partition.safetensors, partition.json
                        the rows of each client, and its label counts
    metrics.jsonl       one line per round; the same bits for the same config
    timings.jsonl       one line per round: seconds
    probes.jsonl        one line per probe
    status.json         running, finished, interrupted, diverged or failed, and why
    privacy.json        in a federation with privacy: number of aggregations that have drawn noise
    checkpoints/        the last two, and the last before the run diverged
    states/             client states kept between rounds
    track/              files of trackers, if any are configured

The keys of the records are in store/schema.py. Nothing is ever unpickled. Files are written under another
name and renamed, so that a kill at any moment leaves a folder that can be resumed. Files that a checkpoint
refers to are on disk before it, and are compared with its digests on resume.
"""

import json
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from eunoe.config.settings import to_toml
from eunoe.data.federation import Federation
from eunoe.engines.client_states import ClientStates
from eunoe.errors import Damaged, InputError
from eunoe.store.checkpoints import (
    Manifest,
    Marks,
    RunState,
    list_checkpoints,
    newest_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from eunoe.store.line_file import LineFile
from eunoe.system import files
from eunoe.system.files import lock_file

_KEPT = 2
_CELLS_SHOWN = 1_000_000


def check_new(path: Path) -> None:
    """Refuse to start a run in a folder that is not empty."""
    if (path / "config.toml").exists():
        raise InputError(
            f"{path} already has a run; resume it with eunoe run --resume {path}, or use another folder"
        )
    # A process killed during its first write leaves these.
    leftover = {path / ".lock", *path.glob("config.toml.*.part")}
    if path.is_dir() and set(path.iterdir()) - leftover:
        raise InputError(f"{path} is not empty and has no run: pass a new or empty folder")


class RunFolder:
    """The folder of a run, locked by the one process that writes to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # The round of the newest checkpoint, from which the run would resume.
        self._saved = 0
        # Whether the model of each checkpoint looked healthy, by round.
        self._health: dict[int, bool] = {}
        self._config = ""
        self._files = [LineFile(path / name) for name in Marks.__annotations__]
        # Added to status.json by hooks.
        self.facts: dict[str, Any] = {}
        files.refuse_links(*(path / name for name in ("checkpoints", "states", "track")))
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = lock_file(path / ".lock")  # held as long as the folder is
        except TimeoutError:
            raise InputError(f"another process is running in {path}") from None
        except OSError as error:
            raise InputError(f"cannot write to the folder {path}: {error.strerror}") from None

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the record of every round so far."""
        return files.each_line(self.path / "metrics.jsonl")

    def last_record(self) -> dict[str, Any]:
        """Return the record of the last round; empty before the first."""
        return next(iter(deque(self.records(), maxlen=1)), {})

    def write_config(self, values: Mapping[str, Any]) -> None:
        self._config = to_toml(values)
        files.write_text(self.path / "config.toml", self._config)

    def write_environment(self, values: Mapping[str, Any]) -> None:
        files.write_text(self.path / "environment.json", json.dumps(values, indent=2) + "\n")

    def write_partition(self, federation: Federation) -> None:
        """Write the rows of each client and, unless there are too many clients, their label counts."""
        with files.replacing(self.path / "partition.safetensors") as partial:
            federation.save(partial)
        if len(federation) * federation.classes <= _CELLS_SHOWN:
            counts, names = federation.all_counts().tolist(), federation.data.class_names
            values = {"schema": 1, "label_counts": counts, "class_names": names}
            values["client_names"] = federation.client_names
            files.write_text(self.path / "partition.json", json.dumps(values) + "\n")

    def write_status(self, state: str, reason: str = "", seconds: float = 0.0) -> None:
        values = {"state": state, "round": self._saved, "reason": reason, "seconds": seconds, **self.facts}
        files.write_text(self.path / "status.json", json.dumps(files.plain(values)) + "\n")

    def record(
        self, record: Mapping[str, Any], timing: Mapping[str, Any], probes: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """Append a round's lines to the metrics, timings and probes."""
        for file, lines in zip(self._files, ([record], [timing], probes), strict=True):
            file.append(lines)

    def checkpoint(self, run_state: RunState, states: ClientStates, healthy: bool = True) -> None:
        """Save the run state; keep the last two checkpoints and the last healthy one, and remove others."""
        # Everything that the checkpoint refers to must be on disk before it.
        marks = {file.path.name: file.sync() for file in self._files}
        states.sync()
        with files.writing(self.path):
            files.sync_to_disk(self.path)
        manifest = Manifest(self._config, marks, states.accepted, states.digests, healthy)
        write_checkpoint(self.path, run_state, manifest)
        self._saved = run_state.round
        self._health[run_state.round] = healthy
        self.write_status("running", "", run_state.seconds)
        paths = {int(path.stem): path for path in list_checkpoints(self.path)}
        healthy_rounds = [round for round in paths if self._health.get(round)]
        keep = sorted({*list(paths)[-_KEPT:], *healthy_rounds[-1:]})
        for round in paths.keys() - set(keep):
            files.remove(paths[round], self.path / "checkpoints")
            self._health.pop(round, None)
        states.prune(keep)

    def restore(self, run_state: RunState, states: ClientStates, from_round: int | None = None) -> list[str]:
        """Restore a run state from the newest valid checkpoint, or that of `from_round`; return warnings.

        Nothing is changed before everything is verified; then whatever is newer than the checkpoint goes.
        """

        def verify(manifest: Manifest) -> None:
            for file in self._files:
                file.verify(manifest.files[file.path.name])
            states.check(manifest.accepted, manifest.digests)

        newest, warnings = newest_checkpoint(self.path, from_round, verify)
        status = files.read_json(self.path / "status.json")
        saved = status.get("round", 0) != 0 or any(int(p.stem) for p in list_checkpoints(self.path))
        recorded = not status and any(file.path.exists() for file in self._files)
        if newest is None and (saved or recorded):
            # Starting over would lose something.
            why = f" ({warnings[0].partition(';')[0]})" if warnings else ""
            raise InputError(
                f"cannot resume {self.path}: it has records but no valid checkpoint{why}; restore its files, "
                "or use another folder to run it again"
            )
        if newest is not None:
            # Refuses another model, before anything is changed.
            newest.load(run_state)
        older = []
        for path in list_checkpoints(self.path):
            if newest is None or int(path.stem) > newest.round:
                files.remove(path, path.parent)
            elif int(path.stem) < newest.round:
                try:
                    older.append(read_checkpoint(path))
                except Damaged:
                    files.remove(path, path.parent)
        if newest is None and warnings:
            warnings.append("no checkpoint can be read: starting over")
        manifest = newest.manifest if newest is not None else Manifest("", {}, {}, {})
        states.restore(manifest.accepted, manifest.digests, [each.manifest.accepted for each in older])
        self._health = {each.round: each.manifest.healthy for each in filter(None, (*older, newest))}
        self._saved = run_state.round
        for file in self._files:
            file.truncate(manifest.files.get(file.path.name))
        # A killed process leaves partial files.
        for path in files.partial_files(self.path):
            files.remove(path)
        for path in files.partial_files(self.path / "checkpoints"):
            files.remove(path, path.parent)
        return warnings

    def go_back(self) -> str:
        """Return the command that resumes from the last healthy checkpoint before the newest, if any."""
        earlier = [round for round, healthy in self._health.items() if healthy and round < self._saved]
        return f"eunoe run --resume {self.path} --from-round {max(earlier)}" if earlier else ""

"""The run folder: everything needed to repeat, resume and inspect a run.

    config.toml         the resolved configuration
    environment.json    versions, CPU, git commit, hashes of data and partition
    partition.safetensors, partition.json
                        the rows of each client, and its label counts
    metrics.jsonl       one line per round (schema in docs/run-folder.md); the same bits for the same config
    timings.jsonl       one line per round: seconds
    probes.jsonl        one line per probe (schema in records/reader.py)
    status.json         running, finished, interrupted, diverged or failed, and why
    checkpoints/        the last two
    states/             client states kept between rounds
    track/              files of trackers, if any are configured

Nothing here is ever unpickled. Files are written under another name and renamed, so that a kill at any
moment leaves a folder that can be resumed.
"""

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from weakref import WeakSet

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from eunoe.config.toml import to_toml
from eunoe.core.flat_model import Vectors, Weights
from eunoe.data.federation import Federation
from eunoe.engines.client_states import ClientStates
from eunoe.errors import InputError, RunFailed
from eunoe.runs.state import RunState
from eunoe.system.files import plain, read_lines, replacing, write_text, writing
from eunoe.training.update_checks import Usual

_KEPT = 2
_CELLS_SHOWN = 1_000_000
_LINES = ("metrics.jsonl", "timings.jsonl", "probes.jsonl")


def check_new(path: Path) -> None:
    """Refuse to start a run in a folder that holds another, or anything else."""
    if (path / "config.toml").exists():
        raise InputError(f"{path} holds a run already; resume it, or name another folder")
    # A process killed during the very first write leaves no more than these.
    nothing = {path / ".lock", *path.glob("config.toml.*.part")}
    if path.is_dir() and set(path.iterdir()) - nothing:
        raise InputError(f"{path} holds other files and no run; name a new folder or an empty one")


class RunFolder:
    """The folder of a run, locked by the one process that writes to it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        # The round of the newest checkpoint, from which the run would resume.
        self._saved = 0
        try:
            path.mkdir(parents=True, exist_ok=True)
            self._lock = open(path / ".lock", "w")  # noqa: SIM115 (held as long as the folder is)
        except OSError as error:
            raise InputError(f"cannot write to the folder {path}: {error.strerror}") from None
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise InputError(f"another process is running in {path}") from None
        _open.add(self)

    def __enter__(self) -> "RunFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.close()

    def last_record(self) -> dict[str, Any]:
        """The record of the last round; empty before the first."""
        records = read_lines(self.path / "metrics.jsonl")
        return records[-1] if records else {}

    def write_config(self, values: Mapping[str, Any]) -> None:
        write_text(self.path / "config.toml", to_toml(values))

    def write_environment(self, values: Mapping[str, Any]) -> None:
        write_text(self.path / "environment.json", json.dumps(values, indent=2) + "\n")

    def write_partition(self, federation: Federation) -> None:
        """Write the rows of each client and, unless there are too many clients, their label counts."""
        with replacing(self.path / "partition.safetensors") as partial:
            federation.save(partial)
        if len(federation) * federation.classes <= _CELLS_SHOWN:
            counts, names = federation.all_counts().tolist(), federation.data.class_names
            values = {"schema": 1, "label_counts": counts, "class_names": names}
            write_text(self.path / "partition.json", json.dumps(values) + "\n")

    def write_status(self, state: str, reason: str = "", seconds: float = 0.0) -> None:
        values = {"state": state, "round": self._saved, "reason": reason, "seconds": seconds}
        write_text(self.path / "status.json", json.dumps(values) + "\n")

    def record(
        self, record: Mapping[str, Any], timing: Mapping[str, Any], probes: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        """Append a round's lines to the metrics, timings and probes."""
        for name, lines in zip(_LINES, ([record], [timing], probes), strict=True):
            if lines:
                with writing(self.path / name), open(self.path / name, "a") as file:
                    file.writelines(json.dumps(plain(values), allow_nan=False) + "\n" for values in lines)

    def checkpoint(self, run_state: RunState, states: ClientStates) -> None:
        """Save the run state, then remove files that are no longer needed."""
        groups = {"server": run_state.server, "weights": run_state.weights.vectors()}
        groups["average"] = run_state.average
        if run_state.best is not None:
            # A copy, since the last model is often the best one and safetensors refuses shared tensors.
            groups["best"] = run_state.best.copy().vectors()
        tensors, remembered = _parted(run_state.metrics)
        groups |= tensors
        accepted = sorted(states.accepted.items())
        groups["clients"] = {"accepted": torch.tensor(accepted, dtype=torch.int64).reshape(-1, 2)}
        facts = {
            "round": run_state.round,
            "best_accuracy": run_state.best_accuracy,
            "metrics": remembered,
            "seconds": run_state.seconds,
            "norms": run_state.norms,
            "lengths": {name: _size(self.path / name) for name in _LINES},
        }
        folder = self.path / "checkpoints"
        with writing(folder):
            folder.mkdir(exist_ok=True)
        target = folder / _checkpoint_name(run_state.round)
        vectors = {
            f"{group}/{name}": value.cpu().contiguous()
            for group, members in groups.items()
            for name, value in members.items()
        }
        with replacing(target) as partial:
            save_file(vectors, partial, {"facts": json.dumps(facts)})
        self._saved = run_state.round
        self.write_status("running", "", run_state.seconds)
        kept = checkpoints(self.path)
        for path in kept[:-_KEPT]:
            path.unlink()
        states.prune(int(kept[-_KEPT:][0].stem))

    def restore(self, run_state: RunState, states: ClientStates) -> list[str]:
        """Restore a run state from the newest readable checkpoint; return warnings.

        Records are truncated to the checkpoint's round, and files written after it are removed. A run that
        had a checkpoint and has none left is refused, so that its records stay.
        """
        lengths, warnings = load_state(self.path, run_state, states)
        if not lengths and _size(self.path / "metrics.jsonl") and self._had_checkpoint():
            raise InputError(
                f"{self.path} holds the records of a run but no readable checkpoint, so it cannot be "
                "resumed; to run it again name another folder, or remove this one"
            )
        self._saved = run_state.round
        for name in _LINES:
            _cut_back(self.path / name, lengths.get(name, 0))
        if warnings and not run_state.round:
            warnings.append("no checkpoint can be read: the run starts over")
        states.remove_strays({states.path(*entry) for entry in states.accepted.items()})
        for path in self.path.glob("*.part"):
            path.unlink()
        for path in (self.path / "checkpoints").glob("*"):
            # A later one is unreadable, an earlier one may need states that were removed, and a killed
            # process leaves partial files.
            if path.name != _checkpoint_name(run_state.round):
                path.unlink()
        return warnings

    def _had_checkpoint(self) -> bool:
        path = self.path / "status.json"
        return not path.exists() or json.loads(path.read_text("utf-8"))["round"] > 0


# Forked workers must not hold the lock: they may briefly outlive a run that is killed.
_open: WeakSet[RunFolder] = WeakSet()


def _leave_locks() -> None:
    for folder in _open:
        folder._lock.close()


os.register_at_fork(after_in_child=_leave_locks)


def load_state(folder: Path, run_state: RunState, states: ClientStates) -> tuple[dict[str, int], list[str]]:
    """Load the newest readable checkpoint; return the lengths of the record files then, and warnings."""
    warnings = []
    for path in reversed(checkpoints(folder)):
        try:
            vectors, facts = _read(path)
        except (OSError, MemoryError, RuntimeError) as error:
            # The file itself may be intact: torch raises RuntimeError when it runs out of memory.
            raise RunFailed(f"cannot read {path}: {error}; once that is fixed, resume the run") from error
        except (SafetensorError, LookupError, TypeError, ValueError) as error:
            warnings.append(f"{path} cannot be read ({error}); the one before it is used")
            continue
        saved, best = _grouped(vectors, "weights"), _grouped(vectors, "best")
        mine, theirs = run_state.weights.parameters.numel(), saved["parameters"].numel()
        if mine != theirs:
            raise InputError(f"the model of {folder} has {theirs} parameters and the one passed has {mine}")
        run_state.weights = Weights.from_vectors(saved)
        run_state.server, run_state.average = _grouped(vectors, "server"), _grouped(vectors, "average")
        run_state.best = Weights.from_vectors(best) if best else None
        for name in ("round", "best_accuracy", "seconds"):
            setattr(run_state, name, facts[name])
        run_state.norms = {name: [Usual(*pair) for pair in found] for name, found in facts["norms"].items()}
        run_state.metrics = {
            name: {**values, **_grouped(vectors, f"metric {name}")}
            for name, values in facts["metrics"].items()
        }
        states.accepted = {int(client): int(round) for client, round in vectors["clients/accepted"].tolist()}
        return facts["lengths"], warnings
    return {}, warnings


def checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a run folder, oldest first."""
    return sorted((folder / "checkpoints").glob("*.safetensors"))


def _checkpoint_name(round: int) -> str:
    return f"{round:08d}.safetensors"


def _parted(metrics: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Vectors], dict[str, Any]]:
    """The state of metrics: groups of tensors, and the other values, which must be JSON-serializable."""
    tensors, rest = dict[str, Vectors](), dict[str, Any]()
    for name, state in metrics.items():
        # A copy, since two metrics may hold the same tensor and safetensors refuses shared tensors.
        own = {key: value.clone() for key, value in state.items() if isinstance(value, torch.Tensor)}
        tensors[f"metric {name}"] = own
        rest[name] = {key: value for key, value in state.items() if key not in own}
        try:
            json.dumps(rest[name])
        except (TypeError, ValueError) as error:
            raise InputError(
                f"metric {name!r}: state() must return tensors or JSON-serializable values: {error}"
            ) from None
    return tensors, rest


def _read(path: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
    with safe_open(path, "pt") as file:
        facts = json.loads(file.metadata()["facts"])
        return {name: file.get_tensor(name).clone() for name in file.keys()}, facts  # noqa: SIM118


def _grouped(vectors: Mapping[str, torch.Tensor], group: str) -> Vectors:
    """The vectors of one group in a checkpoint, stored as `group/name`."""
    parts = ((name.split("/", 1), value) for name, value in vectors.items())
    return {name: value for (found, name), value in parts if found == group}


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _cut_back(path: Path, length: int) -> None:
    if _size(path) > length:
        os.truncate(path, length)

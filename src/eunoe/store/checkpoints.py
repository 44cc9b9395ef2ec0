"""The state of a run between rounds, and checkpoints: a state in one file, with a manifest of its files.

A checkpoint is a safetensors file. Its metadata have `facts`, the values that are not tensors, and `sha256`,
the digest of facts and tensors. The facts include length, lines and digest of the record files; the tensors
include the round and digest of every client's state.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from pydantic import TypeAdapter, ValidationError
from safetensors.torch import save_file
from typing_extensions import TypedDict

from eunoe.core.flat_model import Vectors, Weights
from eunoe.engines.simulation import Simulation
from eunoe.errors import Damaged, InputError
from eunoe.server.averaging import average_model, start_average
from eunoe.server.update_checks import NormStats
from eunoe.store.line_file import Mark
from eunoe.system.files import make_folder, parse_json, replacing
from eunoe.system.tensor_files import digest, read_tensors


@dataclass
class RunState:
    """The state of a run after a round: everything the next round depends on."""

    weights: Weights
    server: Vectors
    round: int = 0
    # The last round whose records are written; the state is consistent if it equals `round`.
    recorded: int = 0
    # The state of averaging, if configured.
    average: Vectors = field(default_factory=dict)
    best: Weights | None = None
    # Or the main metric of another task.
    best_accuracy: float = -1.0
    # The state of each metric, by name: tensors and JSON values.
    metrics: dict[str, dict[str, Any]] = field(default_factory=dict)
    seconds: float = 0.0
    # The median norms of the last rounds' updates, by vector.
    norms: dict[str, list[NormStats]] = field(default_factory=dict)
    # What was sent in the last rounds, the newest first, for stale updates.
    past: list[Vectors] = field(default_factory=list)
    # The sums of the clients' private parameters, and the number of clients that have some.
    private: Vectors = field(default_factory=dict)


def start_state(simulation: Simulation) -> RunState:
    """Return the state before the first round; the server's vectors are on the CPU, whatever the device."""
    weights = simulation.model.weights.copy().to("cpu")
    server = simulation.method.start(weights, simulation.context)
    server |= simulation.context.server_optimizer.start(weights.parameters)
    return RunState(weights, server, average=start_average(simulation.averaging, weights))


def evaluated_model(simulation: Simulation, run_state: RunState) -> Weights:
    """Return the evaluated and exported model: the method's or its average, with the mean private part."""
    reported = simulation.method.reported(run_state.server, run_state.weights)
    averaged = average_model(simulation.averaging, run_state.average, reported)
    private = simulation.private
    return averaged if private is None else private.put_mean(averaged, run_state.private)


# The record files of a run, with their marks.
Marks = TypedDict("Marks", {"metrics.jsonl": Mark, "timings.jsonl": Mark, "probes.jsonl": Mark})
# What the facts hold of the run state and of the manifest, besides the state of metrics.
_NORMS = dict[str, list[tuple[float, float]]]
_OF_STATE = {"round": int, "best_accuracy": float, "seconds": float, "norms": _NORMS}
_OF_MANIFEST = {"config": str, "files": Marks, "healthy": bool}
_METRICS = {"metrics": dict[str, dict[str, Any]]}
_FACTS = TypeAdapter[Any](TypedDict("Facts", {**_OF_STATE, **_OF_MANIFEST, **_METRICS}))  # type: ignore[operator]


@dataclass(frozen=True)
class Manifest:
    """The files that a checkpoint depends on."""

    # The configuration, as TOML.
    config: str
    files: Mapping[str, Mark]
    # The current state of each client: the round that wrote it and the digest of its file.
    accepted: Mapping[int, int]
    digests: Mapping[int, bytes]
    # False if the model looked diverged.
    healthy: bool = True


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and whose digest is correct."""

    path: Path
    vectors: Vectors
    facts: Mapping[str, Any]
    manifest: Manifest

    @property
    def round(self) -> int:
        return int(self.facts["round"])

    def load(self, run_state: RunState) -> None:
        """Restore a run state from this checkpoint."""
        saved, best, start = self._group("weights"), self._group("best"), run_state.weights.vectors()
        if "parameters" in saved and len(saved["parameters"]) != (here := len(start["parameters"])):
            folder, there = self.path.parent.parent, len(saved["parameters"])
            raise InputError(f"the model has {here} parameters, but the run in {folder} has {there}")
        # Lists that are empty at the start grow.
        server, fixed = self._group("server"), {k: v for k, v in run_state.server.items() if v.numel()}
        for group, form in ((saved, start), (best or saved, start), (server, fixed)):
            wanted, forms = ({k: (v.dtype, v.shape) for k, v in each.items()} for each in (form, group))
            if not wanted.items() <= forms.items():
                raise Damaged(f"{self.path} does not fit the run: a vector is missing or has another form")
        run_state.weights, run_state.server = Weights.from_vectors(saved), server
        run_state.average = self._group("average")
        run_state.best = Weights.from_vectors(best) if best else None
        for name in _OF_STATE:
            setattr(run_state, name, self.facts[name])
        run_state.recorded = run_state.round
        run_state.private, run_state.past = self._group("private"), []
        while vectors := self._group(f"past {len(run_state.past) + 1}"):
            run_state.past.append(vectors)
        norms = self.facts["norms"].items()
        run_state.norms = {name: [NormStats(*pair) for pair in pairs] for name, pairs in norms}
        stored = self.facts["metrics"].items()
        run_state.metrics = {name: {**values, **self._group(f"metric {name}")} for name, values in stored}

    def _group(self, group: str) -> Vectors:
        """Return the vectors of one group, stored as `group/name`."""
        parts = ((name.partition("/"), value) for name, value in self.vectors.items())
        return {name: value for (prefix, _, name), value in parts if prefix == group}


def list_checkpoints(folder: Path) -> list[Path]:
    """Return the checkpoints in a run folder, oldest first."""
    return sorted(path for path in (folder / "checkpoints").glob("*.safetensors") if path.stem.isdigit())


def write_checkpoint(folder: Path, run_state: RunState, manifest: Manifest) -> None:
    """Write a run state; the files in the manifest must be on disk already."""
    tensors, values = _split_tensors(run_state.metrics)
    groups = {
        "server": run_state.server,
        "weights": run_state.weights.vectors(),
        "average": run_state.average,
        "private": run_state.private,
        # A copy: the last model is often the best one, and safetensors refuses shared tensors.
        "best": run_state.best.copy().vectors() if run_state.best else {},
        **tensors,
        **{f"past {number}": vectors for number, vectors in enumerate(run_state.past, start=1)},
    }
    facts = {"metrics": values, **{name: getattr(run_state, name) for name in _OF_STATE}}
    facts |= {name: getattr(manifest, name) for name in _OF_MANIFEST}
    named = ((f"{group}/{name}", value) for group, own in groups.items() for name, value in own.items())
    vectors = {name: value.cpu().contiguous() for name, value in named}
    accepted = sorted(manifest.accepted.items())
    known = [list(manifest.digests.get(client, b"")) for client, _ in accepted]
    vectors["clients/accepted"] = torch.tensor(accepted, dtype=torch.int64).reshape(-1, 2)
    digests = torch.tensor(known, dtype=torch.uint8)
    vectors["clients/digests"] = digests.reshape(len(known), -1 if known else 0)
    text = json.dumps(facts)
    target = folder / "checkpoints"
    make_folder(target)
    with replacing(target / f"{run_state.round:08d}.safetensors") as partial:
        save_file(vectors, partial, {"facts": text, "sha256": digest(vectors, text)})


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint and verify its digest; raise `Damaged` if it does not match."""
    try:
        vectors, metadata = read_tensors(path)
    except FileNotFoundError:
        raise Damaged(f"{path} is missing") from None
    if set(metadata) != {"facts", "sha256"} or digest(vectors, metadata["facts"]) != metadata["sha256"]:
        raise Damaged(f"{path} is damaged (SHA-256 mismatch)")
    try:
        facts = _FACTS.validate_python(parse_json(metadata["facts"], path))
        accepted, known = (vectors[f"clients/{name}"].long().tolist() for name in ("accepted", "digests"))
        digests = {client: bytes(value) for (client, _), value in zip(accepted, known, strict=True)}
    except (ValidationError, KeyError, TypeError, ValueError):
        raise Damaged(f"{path} was written by an incompatible version of eunoe") from None
    stored = {name: facts[name] for name in _OF_MANIFEST}
    return Checkpoint(path, vectors, facts, Manifest(accepted=dict(accepted), digests=digests, **stored))


def newest_checkpoint(
    folder: Path, from_round: int | None = None, verify: Callable[[Manifest], None] = lambda manifest: None
) -> tuple[Checkpoint | None, list[str]]:
    """Return the newest checkpoint that `verify` accepts, or that of a round, and why others were skipped."""
    warnings = list[str]()
    paths = {int(path.stem): path for path in list_checkpoints(folder)}
    if from_round is not None:
        if from_round not in paths:
            rounds = ", ".join(map(str, paths)) or "none"
            raise InputError(f"{folder} has no checkpoint of round {from_round}; it has: {rounds}")
        paths = {from_round: paths[from_round]}
    for path in reversed(paths.values()):
        try:
            checkpoint = read_checkpoint(path)
            verify(checkpoint.manifest)
        except Damaged as error:
            skipped = "" if str(path) in str(error) else f"{path} is skipped: "
            warnings.append(f"{skipped}{error}; using the previous checkpoint")
        else:
            return checkpoint, warnings
    return None, warnings


def _split_tensors(metrics: Mapping[str, Mapping[str, Any]]) -> tuple[dict[str, Vectors], dict[str, Any]]:
    """Split the state of metrics into groups of tensors and other values, which must be JSON-serializable."""
    tensors, rest = dict[str, Vectors](), dict[str, Any]()
    for name, state in metrics.items():
        # A copy: two metrics may hold the same tensor, and safetensors refuses shared tensors.
        own = {key: value.clone() for key, value in state.items() if isinstance(value, torch.Tensor)}
        tensors[f"metric {name}"] = own
        rest[name] = {key: value for key, value in state.items() if key not in own}
        try:
            json.dumps(rest[name])
        except (TypeError, ValueError) as error:
            raise InputError(f"state() of metric {name!r} must be tensors or JSON values: {error}") from None
    return tensors, rest

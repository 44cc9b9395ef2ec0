"""Runs that were begun under earlier names, in today's form.

python -m tools.migrate OLD NEW [--into results]

converts every run folder below OLD (a run folder, a folder of runs, or an earlier results/) into the same
place below NEW: its config, its checkpoints and its clients' states, so that it can be shown and resumed.
With --into, runs that have ended and belong to an exhibit are also stored in that folder of results.
"""

import argparse
import json
import shutil
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from eunoe.config.toml import to_toml
from eunoe.engines.client_states import ClientStates
from eunoe.papers.exhibit import PART
from eunoe.runs.checkpoints import Manifest, checkpoints, save
from eunoe.runs.line_file import mark_of
from eunoe.system.tensor_files import read_tensors
from tools.published import add

SERVER_OPTIMIZERS = {"average": "sgd", "avgm": "momentum"}
LANES = {"parameters": "parameters", "floats": "float_buffers", "integers": "int_buffers"}
PLAIN = (
    "after.json",
    "environment.json",
    "flower.json",
    "metrics.jsonl",
    "partition.json",
    "partition.safetensors",
    "probes.jsonl",
    "status.json",
    "timings.jsonl",
)


def convert_config(old: Mapping[str, Any]) -> dict[str, Any]:
    """A config in today's words."""
    new = {{"server_step": "server_optimizer"}.get(name, name): value for name, value in old.items()}
    if isinstance(step := new.get("server_optimizer"), dict):
        new["server_optimizer"] = {**step, "name": SERVER_OPTIMIZERS.get(step["name"], step["name"])}
    elif isinstance(step, str):
        new["server_optimizer"] = SERVER_OPTIMIZERS.get(step, step)
    if "training" in new:
        words = {"optimiser": "optimizer", "unlearnable": "single_class"}
        new["training"] = {words.get(name, name): value for name, value in new["training"].items()}
    if isinstance(engine := new.get("engine"), dict) and engine.get("name") == "vectorised":
        new["engine"] = {**engine, "name": "vectorized"}
    if isinstance(data := new.get("data"), dict) and data.get("name") == "eunoe.recipes.part:part":
        new["data"] = {**data, "name": PART}
    return new


def convert_vectors(old: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The vectors of a checkpoint by today's names; those that have them already stay."""
    new = {}
    for name, value in old.items():
        group, _, rest = name.partition(" ")
        if name == "accepted":
            new["clients/accepted"] = value
        elif group in ("weights", "best"):
            new[f"{group}/{LANES[rest]}"] = value
        elif group == "server":
            new[f"server/{rest}"] = value
        else:
            new[name] = value
    return new


def convert_run(old: Path, new: Path) -> None:
    """Write a run folder in today's form; the old one stays as it is."""
    new.mkdir(parents=True, exist_ok=True)
    for name in PLAIN:
        if (old / name).exists():
            shutil.copyfile(old / name, new / name)
    config = convert_config(tomllib.loads((old / "config.toml").read_text("utf-8")))
    (new / "config.toml").write_text(to_toml(config), "utf-8")
    moon = config.get("method", {}).get("name") == "moon"
    for path in old.glob("states/*/*.safetensors"):
        state = load_file(path)
        if moon and "floats" in state:
            state["float_buffers"] = state.pop("floats")
        target = new / path.relative_to(old)
        target.parent.mkdir(parents=True, exist_ok=True)
        save_file(state, target)
    for path in checkpoints(old):
        convert_checkpoint(path, new, to_toml(config))


def convert_checkpoint(old: Path, new: Path, config: str) -> None:
    """Write a checkpoint into a run folder whose other files are converted, with a manifest of them."""
    vectors, metadata = read_tensors(old)
    facts = json.loads(metadata["facts"])
    lengths = facts.pop("lengths", None) or {name: mark["bytes"] for name, mark in facts.pop("files").items()}
    vectors = convert_vectors(vectors)
    states = ClientStates(new / "states")
    vectors.pop("clients/digests", None)
    states.accepted = dict(vectors.pop("clients/accepted").tolist())
    if not (new / "flower.json").exists():
        states.sync()
    files = {
        name: mark_of((new / name).read_bytes()[:length] if length else b"")
        for name, length in lengths.items()
    }
    manifest = Manifest(config, files, states.accepted, states.digests, facts.pop("healthy", True))
    facts.pop("config", None)
    (new / "checkpoints").mkdir(exist_ok=True)
    save(new / "checkpoints" / old.name, vectors, {"norms": {}, **facts}, manifest)


def convert_tree(old: Path, new: Path) -> list[Path]:
    """Convert every run folder at or below a path; give the new ones."""
    found = []
    for config in sorted(old.rglob("config.toml")):
        # An exhibit's name had another spelling.
        place = Path(str(config.parent.relative_to(old)).replace("personalisation", "personalization"))
        convert_run(config.parent, new / place)
        found.append(new / place)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description="Convert runs that were begun under earlier names.")
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--into", type=Path, help="folder of results to store ended runs in")
    given = parser.parse_args()
    folders = convert_tree(given.old, given.new)
    print(f"converted {len(folders)}")
    if given.into is not None:
        print(f"stored {add(given.new, given.into)}")


if __name__ == "__main__":
    main()

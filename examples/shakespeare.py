"""What a small language model forgets when speakers fine-tune it, and what keeps it.

python examples/shakespeare.py shakespeare.csv.xz FOLDER [SEED ...]

The table has the columns part (train or test), client (play and speaker) and text. FOLDER gets old.csv and
new.csv, the start model, and a run of each remedy and seed; what is there is not made again.
"""

import csv
import lzma
import subprocess
import sys
from pathlib import Path
from typing import Any

import eunoe

# LEAF files the plays under six titles: the old half is under these two. So many characters of each are used.
OLD = ("ALL_S_WELL", "THE_FIRST_PART")
CHARACTERS = {"train": 400_000, "test": 20_000}
LR = 0.03
REMEDIES: dict[str, dict[str, Any]] = {
    "fedavg": {},
    "fedavg, lr 0.1": {"training": {"steps": 20, "batch_size": 16, "lr": 0.1}},
    "with start": {"averaging": {"with_start": 0.3}},
    "rehearsal": {"method": {"name": "rehearsal", "server_steps": 5, "server_lr": LR}},
    "l2_sp": {"method": {"name": "l2_sp", "weight": 0.1}},
    "ewc": {"method": {"name": "ewc", "weight": 3.0, "max_samples": 200}},
}
COMMON = {"partition": "natural", "split": {"validation": 0.0}, "probes": [], "engine": "serial"}
MODEL: dict[str, Any] = {"name": "char_gpt", "width": 32, "heads": 2, "layers": 1}


def divide(table: Path, folder: Path) -> None:
    """Write the two halves of the plays."""
    with lzma.open(table, "rt", encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["text"].strip()]
    for name in ("old", "new"):
        left = dict(CHARACTERS)
        with (folder / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, ["part", "client", "text"])
            writer.writeheader()
            for row in rows:
                if row["client"].startswith(OLD) == (name == "old") and left[row["part"]] > 0:
                    left[row["part"]] -= len(row["text"])
                    writer.writerow(row)


def text(path: Path, **more: Any) -> dict[str, Any]:
    own = {"name": "text", "path": str(path), "client": "client", "part": "part", "length": 32}
    return {**own, "unit": "characters", "task": "language_model", **more}


def pretrain(folder: Path) -> None:
    """Train the start model on the old half, and export it."""
    training = {"steps": 100, "batch_size": 64, "lr": 0.01, "lr_decay": 0.85, "optimizer": "adamw"}
    values = {**COMMON, "model": MODEL, "method": "central", "rounds": 15, "training": training}
    run = eunoe.run(values, data=text(folder / "old.csv"), out=folder / "pretrained")
    command = ["eunoe", "export", run.folder, "--to", folder / "start.safetensors"]
    subprocess.run([sys.executable, "-m", *map(str, command)], check=True)


def tune(folder: Path, **changes: Any) -> dict[str, Any]:
    old, new = (text(folder / f"{half}.csv", encoding=str(folder / "start.json")) for half in ("old", "new"))
    model = {**MODEL, "start_from": str(folder / "start.safetensors")}
    values = {**COMMON, "data": new, "retain": [{"name": "old", "data": old}], "model": model, "rounds": 20}
    values |= {"participation": 8, "training": {"steps": 20, "batch_size": 16, "lr": LR}}
    return {**values, "evaluation": {"every": 10, "last": 1, "chunk": 32_000}, **changes}


if __name__ == "__main__":
    home, seeds = Path(sys.argv[2]), [int(seed) for seed in sys.argv[3:]] or [0, 1, 2]
    home.mkdir(parents=True, exist_ok=True)
    if not (home / "start.json").exists():
        divide(Path(sys.argv[1]), home)
        pretrain(home)
    for name, changes in REMEDIES.items():
        eunoe.run(tune(home, name=name, **changes), seeds=seeds, out=home / name)
    print(eunoe.compare([eunoe.Run(home / name / f"seed-{seed}") for name in REMEDIES for seed in seeds]))

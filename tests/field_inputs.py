"""A federation whose samples have several fields, and models that take them."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from eunoe.data.federation import Federation


def columns(samples: int = 240, seed: int = 0) -> tuple[dict[str, Any], np.ndarray]:
    """Ids and mask of varying length, numbers and a category; the label is a token that occurs in the ids."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, samples)
    ids = [rng.integers(4, 20, rng.integers(2, 9)) for _ in range(samples)]
    for sample, label in zip(ids, y, strict=True):
        sample[rng.integers(len(sample))] = label + 1
    x = {
        "ids": ids,
        "mask": [np.ones(len(sample), bool) for sample in ids],
        "numbers": rng.normal(size=(samples, 2)).astype(np.float64),
        "category": rng.integers(0, 5, samples),
    }
    return x, y


def field_federation(**options: Any) -> Federation:
    x, y = columns()
    return Federation.from_arrays(x, y, **{"clients": 5, "alpha": 100.0, **options})


class FieldNet(nn.Module):
    """The mean embedding of the tokens that the mask marks, with numbers and a category beside it."""

    def __init__(self, classes: int = 3) -> None:
        super().__init__()
        self.tokens, self.category = nn.Embedding(20, 6), nn.Embedding(5, 2)
        self.hidden = nn.Linear(10, 8)
        self.classifier = nn.Linear(8, classes)

    def features(self, ids: Tensor, mask: Tensor, numbers: Tensor, category: Tensor) -> Tensor:
        there = mask.unsqueeze(2).to(numbers.dtype)
        mean = (self.tokens(ids) * there).sum(1) / there.sum(1)
        return torch.relu(self.hidden(torch.cat([mean, self.category(category), numbers], 1)))

    def forward(self, ids: Tensor, mask: Tensor, numbers: Tensor, category: Tensor) -> Any:
        return SimpleNamespace(logits=self.classifier(self.features(ids, mask, numbers, category)))


def field_net() -> FieldNet:
    torch.manual_seed(3)
    return FieldNet()

"""Small networks for text as token ids: convolutions over embeddings (Kim, 2014), and their mean.

Kim, "Convolutional Neural Networks for Sentence Classification", https://arxiv.org/abs/1408.5882. Departures:
embeddings are trained from random values, and there is no dropout.
"""

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.errors import InputError
from eunoe.models.base import Classifier, Width

PADDING = 0


class TextCNN(Classifier):
    """Embeddings, a convolution of each width over the tokens, and the maximum over the text.

    `pool` = "flat" keeps every position instead, as needed to predict the next token.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        vocabulary: int | None = None,
        *,
        embedding: Width = 64,
        width: Width = 64,
        kernels: Sequence[Width] = (2, 3, 4),
        pool: Literal["max", "flat"] = "max",
    ) -> None:
        super().__init__()
        length = _length("text_cnn", shape, vocabulary, max(kernels, default=1))
        if not kernels:
            raise InputError("model 'text_cnn' needs at least one kernel")
        self.embedding = nn.Embedding(vocabulary or 0, embedding)
        self.convolutions = nn.ModuleList(nn.Conv1d(embedding, width, kernel) for kernel in kernels)
        self.pool = pool
        places = len(kernels) if pool == "max" else sum(length - kernel + 1 for kernel in kernels)
        self.classifier = nn.Linear(width * places, classes)

    def features(self, x: Tensor) -> Tensor:
        embedded = self.embedding(x).transpose(1, 2)
        maps = [F.relu(convolution(embedded)) for convolution in self.convolutions]
        if self.pool == "max":
            return torch.cat([values.amax(2) for values in maps], dim=1)
        return torch.cat([values.flatten(1) for values in maps], dim=1)


class TextBag(Classifier):
    """The mean of the tokens' embeddings, independent of their order."""

    def __init__(
        self, shape: tuple[int, ...], classes: int, vocabulary: int | None = None, *, embedding: Width = 128
    ) -> None:
        super().__init__()
        _length("text_bag", shape, vocabulary, 1)
        self.embedding = nn.Embedding(vocabulary or 0, embedding)
        self.classifier = nn.Linear(embedding, classes)

    def features(self, x: Tensor) -> Tensor:
        mask = (x != PADDING).unsqueeze(2).to(self.embedding.weight.dtype)
        # The mean of a text of only padding is 0.
        return (self.embedding(x) * mask).sum(1) / mask.sum(1).clamp(min=1)


def _length(model: str, shape: tuple[int, ...], vocabulary: int | None, least: int) -> int:
    """Return the number of tokens of a sample; raise InputError if the inputs are not token ids."""
    if vocabulary is None or len(shape) != 1:
        raise InputError(f"model {model!r} needs integer token ids [length], not inputs {list(shape)}")
    if shape[0] < least:
        raise InputError(f"model {model!r} needs texts of at least {least} tokens, but they have {shape[0]}")
    return shape[0]

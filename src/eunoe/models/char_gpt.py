"""A small GPT: a decoder-only transformer for blocks of token ids (Radford et al., 2019).

"Language Models are Unsupervised Multitask Learners",
https://cdn.openai.com/better-language-models/language_models_are_unsupervised_multitask_learners.pdf

    h = E[x] + P ;  for each layer: h = h + A(LN(h)), h = h + W2 gelu(W1 LN(h)) ;  logits = LN(h) W

A is causal self-attention with several heads. Departures: the output layer W is not tied to the embedding E,
and layers of depth L do not scale their initial weights by 1 / sqrt(L), which matters for deep networks.
"""

from typing import Annotated

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.errors import InputError
from eunoe.models.base import Width


class CharGPT(nn.Module):
    """A small GPT for characters or words: the next token at each place of a block."""

    def __init__(
        self,
        shape: tuple[int, ...],
        classes: int,
        vocabulary: int | None = None,
        *,
        width: Width = 128,
        layers: Annotated[PositiveInt, Field(le=100)] = 2,
        heads: PositiveInt = 4,
        dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0,
    ) -> None:
        super().__init__()
        if vocabulary is None or len(shape) != 1:
            raise InputError(f"model 'char_gpt' needs integer token ids [length], not inputs {list(shape)}")
        if width % heads:
            raise InputError(f"model 'char_gpt': width {width} must be a multiple of heads {heads}")
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(shape[0], width)
        for embedding in (self.tokens, self.places):
            nn.init.normal_(embedding.weight, std=0.02)
        self.layers = nn.ModuleList(_Layer(width, heads, dropout) for _ in range(layers))
        self.norm, self.output = nn.LayerNorm(width), nn.Linear(width, classes, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        hidden = self.tokens(x) + self.places.weight[: x.shape[1]]
        for layer in self.layers:
            hidden = layer(hidden)
        logits: Tensor = self.output(self.norm(hidden))
        return logits


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, nn.Dropout(dropout)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2))
        self.inner, self.outer = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, hidden: Tensor) -> Tensor:
        batch, length, width = hidden.shape
        mixed = self.inner(self.norms[0](hidden)).view(batch, length, 3, self.heads, width // self.heads)
        query, key, value = mixed.permute(2, 0, 3, 1, 4).unbind(0)
        scores = query @ key.mT / (width // self.heads) ** 0.5
        future = torch.ones(length, length, dtype=torch.bool, device=hidden.device).triu(1)
        attended = self.dropout(scores.masked_fill(future, float("-inf")).softmax(-1)) @ value
        hidden = hidden + self.dropout(self.outer(attended.transpose(1, 2).reshape(hidden.shape)))
        wide = F.gelu(self.wide(self.norms[1](hidden)))
        output: Tensor = hidden + self.dropout(self.narrow(wide))
        return output

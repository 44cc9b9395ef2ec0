"""A network of the transformers library as a frozen encoder of text."""

from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.errors import InputError, first_line
from eunoe.system.transformers_library import locate_model, quiet


class HFEncoder(nn.Module):
    """A network of transformers, from the hub or a folder (`from`), as a frozen encoder of text.

    Features are the mean of the last hidden states of a text's tokens, or the state of the first (`pool`).
    `scale` gives them the length of the square root of their number, so that their entries are about 1.
    """

    def __init__(
        self,
        *,
        pool: Literal["mean", "first"] = "mean",
        random: bool = False,
        scale: bool = True,
        **source: Any,
    ) -> None:
        super().__init__()
        where = source.pop("from", None)
        if source:
            strange = next(iter(source))
            raise InputError(f"backbone 'hf' has no option {strange!r}; it has from, pool, random, scale")
        if not isinstance(where, str) or not where:
            raise InputError("backbone 'hf' needs the option 'from': a model on the hub, or its folder")
        self.pool, self.scale = pool, scale
        with quiet("backbone 'hf'"):
            from transformers import AutoConfig, AutoModel

            place = locate_model(where)
            try:
                config = AutoConfig.from_pretrained(place, attn_implementation="eager")
                self.model = AutoModel.from_config(config) if random else AutoModel.from_pretrained(place)
            except (OSError, ValueError) as error:
                raise InputError(
                    f"backbone 'hf': {where} cannot be loaded ({first_line(error)}): "
                    "name a model on the hub or its folder"
                ) from None
        self.requires_grad_(False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        states: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        if self.pool == "first":
            features = states[:, 0]
        elif attention_mask is None:
            features = states.mean(1)
        else:
            there = attention_mask.unsqueeze(2).to(states.dtype)
            features = (states * there).sum(1) / there.sum(1).clamp(min=1)
        if self.scale:
            features = F.normalize(features, dim=1) * torch.tensor(float(features.shape[1])).sqrt()
        return features

"""Pretrained networks of the transformers library as sequence classifiers, with LoRA adapters by peft.

Hu et al., 2022, "LoRA: Low-Rank Adaptation of Large Language Models", https://arxiv.org/abs/2106.09685. With
adapters the pretrained weights are frozen: they are neither trained nor sent nor checkpointed, only the
adapters and the classifier are.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn

from eunoe.config.options import Options
from eunoe.errors import InputError, NotVectorizable, first_line
from eunoe.system.transformers_library import locate_model, quiet

# Architectures in which every token attends to all others, so that a mask of padding is all of the mask.
BIDIRECTIONAL = ("albert", "bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta")


class Lora(Options):
    """Adapters: each target layer's weight W becomes W + (alpha / r) B A, and only A and B are trained."""

    r: PositiveInt = Field(8, description="Rank of the adapters.")
    alpha: float = Field(16.0, gt=0, description="Scale of the adapters, divided by r.")
    targets: tuple[str, ...] = Field(
        (), description="Names of the layers with adapters; by default peft's choice for the architecture."
    )
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout before the adapters.")


class HF(nn.Module):
    """A sequence classifier of transformers, from the hub or a folder (`from`), also with LoRA adapters.

    `random` takes only the architecture from there. `dropout` sets every dropout probability of the network.
    """

    def __init__(
        self,
        classes: int,
        vocabulary: int | None = None,
        *,
        lora: Lora | None = None,
        random: bool = False,
        dropout: Annotated[float, Field(ge=0, lt=1)] | None = None,
        **source: Any,
    ) -> None:
        super().__init__()
        where = source.pop("from", None)
        if source:
            raise InputError(
                f"model 'hf' has no option {next(iter(source))!r}; it has from, lora, random, dropout"
            )
        if not isinstance(where, str) or not where:
            raise InputError(
                "model 'hf' needs the option 'from': the name of a model on the hub, or its folder"
            )
        model = _loaded(where, classes, random)
        if vocabulary is not None and vocabulary > (known := model.config.get_text_config().vocab_size):
            raise InputError(
                f"model 'hf': the data have {vocabulary} token ids and {where} knows {known}: "
                "set the tokenizer of the data to that of the model"
            )
        self.random, self.adapted = random, lora is not None
        self.model = model if lora is None else _adapted(model, lora)
        if dropout is not None:
            for module in self.model.modules():
                if isinstance(module, nn.Dropout):
                    module.p = dropout

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **more: Tensor) -> Tensor:
        if attention_mask is not None and _in_transform():
            attention_mask = self._additive(attention_mask)
        logits: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask, **more).logits
        return logits

    def _additive(self, mask: Tensor) -> Tensor:
        """A mask that is used as it is: transformers branches on the values of others, which vmap refuses.

        It replaces the mask that hides later tokens, so networks that need one are refused.
        """
        config = self.model.config
        if config.model_type not in BIDIRECTIONAL or getattr(config, "is_decoder", False):
            raise NotVectorizable(
                f"the network {config.model_type!r} is not among those that vmap computes with an attention "
                f"mask: {', '.join(BIDIRECTIONAL)}"
            )
        dtype = self.model.dtype
        hidden = (1 - mask.to(dtype)) * torch.finfo(dtype).min
        return hidden[:, None, None, :].expand(-1, 1, mask.shape[1], -1)

    def save(self, folder: Path, merged: bool, class_names: Sequence[str] | None = None) -> None:
        """Write a folder that transformers loads: adapters for peft or, merged, the whole network."""
        model: Any = self.model
        if merged and self.adapted:
            model = model.merge_and_unload()
        if class_names is not None:
            model.config.id2label = dict(enumerate(class_names))
            model.config.label2id = {name: number for number, name in enumerate(class_names)}
        with quiet("model 'hf'"):
            model.save_pretrained(folder)


def _loaded(where: str, classes: int, random: bool) -> Any:
    """A network with a new classifier."""
    place = locate_model(where)
    with quiet("model 'hf'"):
        from transformers import AutoConfig, AutoModelForSequenceClassification

        try:
            # Masks work under vmap with this implementation of attention, and bits are the same everywhere.
            config = AutoConfig.from_pretrained(place, num_labels=classes, attn_implementation="eager")
            if random:
                return AutoModelForSequenceClassification.from_config(config, attn_implementation="eager")
            return AutoModelForSequenceClassification.from_pretrained(place, config=config)
        except (OSError, ValueError) as error:
            raise InputError(
                f"model 'hf': {where} cannot be loaded as a sequence classifier ({first_line(error)}): name "
                "a model on the hub or its folder; for a folder with a config alone, set random = true"
            ) from None


def _adapted(model: Any, lora: Lora) -> Any:
    from peft import LoraConfig, TaskType, get_peft_model

    options = LoraConfig(
        task_type=TaskType.SEQ_CLS,
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets) or None,
    )
    with quiet("model 'hf'"):
        try:
            return get_peft_model(model, options)
        except ValueError:
            layers = {
                name.rpartition(".")[2] for name, m in model.named_modules() if isinstance(m, nn.Linear)
            }
            raise InputError(
                f"model 'hf': no adapter fits lora.targets = {list(lora.targets)}; the linear layers of the "
                f"network are called {', '.join(sorted(layers))}"
            ) from None


def _in_transform() -> bool:
    """Whether this runs under vmap or another transform of torch.func."""
    return torch._C._functorch.maybe_current_level() is not None

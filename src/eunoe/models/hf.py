"""Pretrained networks of the transformers library: classifiers and language models with LoRA, and encoders.

Hu et al., 2022, "LoRA: Low-Rank Adaptation of Large Language Models", https://arxiv.org/abs/2106.09685. With
adapters the pretrained weights are frozen: they are neither trained nor sent nor checkpointed, only the
adapters and the classifier are.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, PositiveInt
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.config.options import Options
from eunoe.errors import InputError, NotVectorizable, first_line
from eunoe.system.transformers_library import locate_model, quiet

# Architectures in which every token attends to all others, so that only padding is masked.
BIDIRECTIONAL = ("albert", "bert", "camembert", "distilbert", "electra", "mpnet", "roberta", "xlm-roberta")


class Lora(Options):
    """Adapters: each target layer's weight W becomes W + (alpha / r) B A, and only A and B are trained."""

    r: PositiveInt = Field(8, description="Rank of the adapters.")
    alpha: float = Field(16.0, gt=0, description="Scale of the adapters, divided by r.")
    targets: tuple[str, ...] = Field((), description="Layers with adapters; default: peft's choice.")
    dropout: float = Field(0.0, ge=0, lt=1, description="Dropout before the adapters.")


class HF(nn.Module):
    """A sequence classifier of transformers, from the hub or a folder (`from`), with or without LoRA.

    With `model.head` = "causal_lm" it is a language model with the network's own output layer. `random` loads
    only the architecture. `dropout` sets every dropout probability of the network.
    """

    def __init__(
        self,
        classes: int,
        vocabulary: int | None = None,
        causal_lm: bool = False,
        *,
        lora: Lora | None = None,
        random: bool = False,
        dropout: Annotated[float, Field(ge=0, lt=1)] | None = None,
        **source: Any,
    ) -> None:
        super().__init__()
        where = _get_from(source, "model 'hf'", "from, lora, random, dropout")
        with _loading("model 'hf'", where) as folder:
            from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSequenceClassification

            Network = AutoModelForCausalLM if causal_lm else AutoModelForSequenceClassification
            # Masks work under vmap with this implementation of attention; causal masks never do.
            labels = {} if causal_lm else {"num_labels": classes, "attn_implementation": "eager"}
            config = AutoConfig.from_pretrained(folder, **labels)
            model = Network.from_config(config) if random else Network.from_pretrained(folder, config=config)
        if vocabulary is not None and vocabulary > (known := model.config.get_text_config().vocab_size):
            raise InputError(
                f"model 'hf': the data have {vocabulary} token ids, but {where} has {known}: "
                "set the tokenizer of the data to that of the model"
            )
        self.random, self.adapted = random, lora is not None
        # Networks may have more outputs than their tokenizer has tokens.
        self.tokens = classes if causal_lm else None
        self.model = model if lora is None else _add_adapters(model, lora, causal_lm)
        if dropout is not None:
            for module in self.model.modules():
                if isinstance(module, nn.Dropout):
                    module.p = dropout

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None, **more: Tensor) -> Tensor:
        # Under vmap or another transform of torch.func.
        if torch._C._functorch.maybe_current_level() is not None:
            if self.tokens is not None:
                raise NotVectorizable("vmap supports no causal mask of a network of transformers")
            attention_mask = None if attention_mask is None else self._additive(attention_mask)
        logits = self.model(input_ids=input_ids, attention_mask=attention_mask, **more).logits
        return logits if self.tokens in (None, logits.shape[-1]) else logits[..., : self.tokens]

    def _additive(self, mask: Tensor) -> Tensor:
        """Return an additive mask, which works under vmap, in place of a mask that is not causal."""
        config = self.model.config
        if config.model_type not in BIDIRECTIONAL or getattr(config, "is_decoder", False):
            raise NotVectorizable(
                f"vmap supports attention masks only for {', '.join(BIDIRECTIONAL)}, not for "
                f"{config.model_type!r}"
            )
        dtype = self.model.dtype
        hidden = (1 - mask.to(dtype)) * torch.finfo(dtype).min
        return hidden[:, None, None, :].expand(-1, 1, mask.shape[1], -1)

    def save(self, folder: Path, merged: bool, class_names: Sequence[str] | None = None) -> None:
        """Write a folder that transformers can load: adapters for peft or, if `merged`, the whole network."""
        model: Any = self.model
        if merged and self.adapted:
            model = model.merge_and_unload()
        if class_names is not None:
            model.config.id2label = dict(enumerate(class_names))
            model.config.label2id = {name: number for number, name in enumerate(class_names)}
        with quiet("model 'hf'"):
            model.save_pretrained(folder)


class HFEncoder(nn.Module):
    """A network of transformers, from the hub or a folder (`from`), as a frozen encoder of text.

    Features are the mean of the last hidden states of a text's tokens, or the state of the first (`pool`).
    `scale` normalizes them to the square root of their number, so that their entries are about 1.
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
        where = _get_from(source, "backbone 'hf'", "from, pool, random, scale")
        self.pool, self.scale = pool, scale
        with _loading("backbone 'hf'", where) as folder:
            from transformers import AutoConfig, AutoModel

            config = AutoConfig.from_pretrained(folder, attn_implementation="eager")
            self.model = AutoModel.from_config(config) if random else AutoModel.from_pretrained(folder)
        self.requires_grad_(False)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        states: Tensor = self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        if self.pool == "first":
            features = states[:, 0]
        elif attention_mask is None:
            features = states.mean(1)
        else:
            mask = attention_mask.unsqueeze(2).to(states.dtype)
            features = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
        if self.scale:
            features = F.normalize(features, dim=1) * torch.tensor(float(features.shape[1])).sqrt()
        return features


def _get_from(source: dict[str, Any], what: str, options: str) -> str:
    """Return the option `from`, which cannot be the name of a parameter."""
    where = source.pop("from", None)
    if source:
        raise InputError(f"{what} has no option {next(iter(source))!r}; it has {options}")
    if not isinstance(where, str) or not where:
        raise InputError(f"{what} needs the option 'from': the name of a model on the hub, or its folder")
    return where


@contextmanager
def _loading(what: str, where: str) -> Iterator[str]:
    """Yield the folder, or the name on the hub, to load from; convert failures to one line."""
    with quiet(what):
        try:
            yield locate_model(where)
        except Exception as error:  # transformers and torch raise errors of many types.
            raise InputError(
                f"{what}: {where} cannot be loaded ({first_line(error)}): set from to a model on the hub "
                "or its folder; for a folder with only a config, set random = true"
            ) from None


def _add_adapters(model: Any, lora: Lora, causal_lm: bool) -> Any:
    from peft import LoraConfig, TaskType, get_peft_model

    options = LoraConfig(
        task_type=TaskType.CAUSAL_LM if causal_lm else TaskType.SEQ_CLS,
        r=lora.r,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.targets) or None,
    )
    layers = [f".{name}" for name, _ in model.named_modules()]
    missing = [target for target in lora.targets if not any(name.endswith(f".{target}") for name in layers)]
    with quiet("model 'hf'"):
        try:
            if missing:  # peft accepts them if one target matches
                raise ValueError
            return get_peft_model(model, options)
        except ValueError:
            linear = (name for name, m in model.named_modules() if isinstance(m, nn.Linear))
            layers = sorted({name.rpartition(".")[2] for name in linear})
            raise InputError(
                f"model 'hf': lora.targets = {missing} match no layer; the linear layers of the "
                f"network are {', '.join(layers)}"
            ) from None

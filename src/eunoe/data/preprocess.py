"""Preprocessing: from stored samples to model inputs, a batch at a time.

Bytes of two or more dimensions are images: they are scaled to [0, 1] and converted to channels first.
Floats are converted to the model's dtype. Other integers, such as token ids, stay integers. Inputs of several
fields are processed field by field.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from eunoe.core.fields import Fields, Input, Ragged, Stored, gather, is_ragged
from eunoe.data.samples import DataSet
from eunoe.errors import InputError


class Preprocess(nn.Module):
    """Converts stored inputs of one data set to model inputs."""

    def __init__(self, data: DataSet, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        stored = data.train.x
        has_fields = isinstance(stored, Fields)
        if has_fields and data.mean is not None:
            raise InputError("inputs of several fields are not normalized: omit mean and std")
        fields = stored if isinstance(stored, Fields) else Fields([stored], [""])
        parts = [PreprocessField(field, data.mean, data.std, dtype) for field in fields.values]
        self.fields = nn.ModuleList(parts)
        # The value of a black pixel after normalization.
        self.black = None if has_fields else parts[0].black
        # Whether the model sees only integers, such as token ids.
        self.integers = all(part.integers for part in parts)
        # The steps in words, for users who load the model without this library.
        self.steps = [
            f"{label}: {step}" if has_fields else step
            for label, part in zip(fields.labels, parts, strict=True)
            for step in part.steps
        ]

    def forward(self, x: Input) -> Input:
        if isinstance(x, Tensor):
            return self.fields[0](x)
        return Fields([field(value) for field, value in zip(self.fields, x.values, strict=True)], x.names)


class PreprocessField(nn.Module):
    """Converts one stored tensor, or one field of samples, to model inputs."""

    scale: Tensor
    shift: Tensor

    def __init__(
        self, stored: Stored, mean: Sequence[float] | None, std: Sequence[float] | None, dtype: torch.dtype
    ) -> None:
        super().__init__()
        self.steps = ["pad to the longest sample"] if isinstance(stored, Ragged) else []
        if isinstance(stored, Ragged):
            stored = stored.pad(torch.zeros(1, dtype=torch.int64))
        assert isinstance(stored, Tensor)
        self.dtype = dtype
        has_bytes = stored.dtype == torch.uint8
        self.integers = not (has_bytes or stored.is_floating_point())
        self._add_channel = has_bytes and stored.ndim == 3
        self._channels_first = has_bytes and stored.ndim == 4
        if has_bytes and stored.ndim > 4:
            raise InputError(f"images must be [n, height, width(, channels)], not {list(stored.shape)}")
        if mean is not None and self.integers:
            raise InputError("integer inputs, such as token ids, are not normalized: omit mean and std")
        means = torch.tensor(mean or (0.0,), dtype=torch.float64)
        stds = torch.tensor(std or (1.0,), dtype=torch.float64)
        if not bool((stds > 0).all()):
            raise InputError("the std for normalization must be above 0")
        images = self._add_channel or self._channels_first
        numbers = 1 if self._add_channel else stored.shape[-1]
        for name, value in (("mean", means), ("std", stds)):
            if len(value) not in (1, numbers):
                raise InputError(f"{name} must be 1 or {numbers} numbers for these inputs, not {len(value)}")
        # (x / 255 - mean) / std as one multiplication and one addition.
        form = (-1, 1, 1) if images else (-1,)
        self.register_buffer("scale", (1 / (stds * (255 if has_bytes else 1))).to(dtype).view(form))
        self.register_buffer("shift", (-means / stds).to(dtype).view(form))
        self.black = self.shift if has_bytes else None
        self._plain = mean is None and not has_bytes
        each = "channel" if images else "entry of the last dimension"
        steps = {
            "convert to int64": self.integers,
            "add a dimension of 1 channel: [n, H, W] to [n, 1, H, W]": self._add_channel,
            "move the channels first: [n, H, W, C] to [n, C, H, W]": self._channels_first,
            f"convert to {str(dtype).removeprefix('torch.')}": not self.integers,
            "divide by 255": has_bytes,
            f"subtract mean and divide by std, which have one number, or one for each {each}": (
                not (self._plain or self.integers)
            ),
        }
        self.steps += [step for step, applies in steps.items() if applies]

    def forward(self, x: Tensor) -> Tensor:
        if self.integers:
            return x.long()
        if self._add_channel:
            x = x.unsqueeze(1)
        elif self._channels_first:
            x = x.permute(0, 3, 1, 2)
        # Images keep their stored (channels-last) layout, which is fastest for convolutions on a CPU.
        x = x.to(self.dtype)
        return x if self._plain else torch.addcmul(self.shift, x, self.scale)


class InputForm(NamedTuple):
    """The shape of an input or of each of its fields, with the largest length if it varies."""

    shapes: Mapping[str, tuple[int, ...]]
    # Whether inputs have fields; if not, their only shape has an empty name.
    has_fields: bool
    # Whether inputs vary in length.
    ragged: bool

    @property
    def shape(self) -> tuple[int, ...]:
        if self.has_fields:
            raise InputError(f"inputs have several fields, each with its own shape: {', '.join(self.shapes)}")
        return self.shapes[""]

    @property
    def numbers(self) -> int:
        """The largest number of values of an input."""
        return sum(int(np.prod(shape)) for shape in self.shapes.values())


def input_form(stored: Stored, preprocess: Preprocess) -> InputForm:
    """Return the form of stored samples after preprocessing."""
    fields = stored if isinstance(stored, Fields) else Fields([stored], [""])
    batch = preprocess(gather(stored, torch.zeros(1, dtype=torch.int64)))
    values = batch.values if isinstance(batch, Fields) else (batch,)
    shapes = {}
    for name, field, value in zip(fields.labels, fields.values, values, strict=True):
        shape = tuple(value.shape[1:])
        shapes[name] = (field.longest, *shape[1:]) if isinstance(field, Ragged) else shape
    return InputForm(shapes, isinstance(stored, Fields), is_ragged(stored))

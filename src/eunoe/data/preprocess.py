"""From stored samples to model inputs, a batch at a time.

Bytes of two or more dimensions are images: they are scaled to [0, 1] and converted to channels first.
Floats are converted to the model's dtype. Other integers, such as token ids, stay integers. Inputs of several
fields are prepared field by field.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from eunoe.core.fields import Fields, Input, Ragged, Stored
from eunoe.data.samples import DataSet
from eunoe.errors import InputError


class Preprocess(nn.Module):
    """Turns stored inputs of one data set into model inputs."""

    def __init__(self, data: DataSet, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        stored = data.train.x
        self.fields = nn.ModuleList()
        # The value of a black pixel after normalization.
        self.black: Tensor | None = None
        if isinstance(stored, Fields):
            if data.mean is not None:
                raise InputError("inputs of several fields are not normalized: leave mean and std out")
            self.fields.extend(PreprocessOne(field, None, None, dtype) for field in stored.values)
        else:
            self.fields.append(PreprocessOne(stored, data.mean, data.std, dtype))
            self.black = self._first.black
        # Whether the model sees only integers, such as token ids.
        self.integers = all(one.integers for one in self._all)

    @property
    def _all(self) -> "list[PreprocessOne]":
        return list(self.fields)  # type: ignore[arg-type]

    @property
    def _first(self) -> "PreprocessOne":
        return self._all[0]

    def forward(self, x: Input) -> Input:
        if isinstance(x, Tensor):
            return self._first(x)  # type: ignore[no-any-return]
        return Fields([one(value) for one, value in zip(self._all, x.values, strict=True)], x.names)

    def steps(self, labels: Sequence[str] = ()) -> list[str]:
        """What is done to a stored batch, in words, for those who load the model without this library."""
        if not labels:
            return self._first.steps
        return [
            f"{label}: {step}" for label, one in zip(labels, self._all, strict=True) for step in one.steps
        ]


class PreprocessOne(nn.Module):
    """Turns stored tensors, or one field of samples, into model inputs."""

    scale: Tensor
    shift: Tensor

    def __init__(
        self,
        stored: Stored,
        mean: Sequence[float] | None,
        std: Sequence[float] | None,
        dtype: torch.dtype,
    ) -> None:
        super().__init__()
        self.ragged = isinstance(stored, Ragged)
        if isinstance(stored, Ragged):
            stored = stored.padded(torch.zeros(1, dtype=torch.int64))
        assert isinstance(stored, Tensor)
        self.dtype = dtype
        self._bytes = stored.dtype == torch.uint8
        self.integers = not (self._bytes or stored.is_floating_point())
        self._add_channel = self._bytes and stored.ndim == 3
        self._channels_first = self._bytes and stored.ndim == 4
        if self._bytes and stored.ndim > 4:
            raise InputError(f"images must be [n, height, width(, channels)], not {list(stored.shape)}")
        means = torch.tensor(mean or (0.0,), dtype=torch.float64)
        stds = torch.tensor(std or (1.0,), dtype=torch.float64)
        if mean is not None and self.integers:
            raise InputError("integer inputs (token ids, say) are not normalized: leave mean and std out")
        if not bool((stds > 0).all()):
            raise InputError("the standard deviation to normalize by must be above 0")
        images = self._add_channel or self._channels_first
        numbers = 1 if self._add_channel else stored.shape[-1]
        for name, value in (("mean", means), ("std", stds)):
            if len(value) not in (1, numbers):
                raise InputError(f"{name} must be 1 or {numbers} numbers for these inputs, not {len(value)}")
        # (x / 255 - mean) / std as one multiplication and one addition.
        form = (-1, 1, 1) if images else (-1,)
        self.register_buffer("scale", (1 / (stds * (255 if self._bytes else 1))).to(dtype).view(form))
        self.register_buffer("shift", (-means / stds).to(dtype).view(form))
        self.black = self.shift if self._bytes else None
        self._plain = mean is None and not self._bytes

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

    @property
    def steps(self) -> list[str]:
        """What is done to a stored batch, in words."""
        steps = ["pad to the longest sample"] if self.ragged else []
        if self.integers:
            return [*steps, "convert to int64"]
        if self._add_channel:
            steps.append("add a dimension of 1 channel: [n, H, W] to [n, 1, H, W]")
        elif self._channels_first:
            steps.append("move the channels first: [n, H, W, C] to [n, C, H, W]")
        steps.append(f"convert to {str(self.dtype).removeprefix('torch.')}")
        if self._bytes:
            steps.append("divide by 255")
        if not self._plain:
            steps.append(
                "subtract mean and divide by std, which have a number for all or one for each "
                + ("channel" if self._add_channel or self._channels_first else "entry of the last dimension")
            )
        return steps

"""From stored samples to model inputs, a batch at a time.

Bytes of two or more dimensions are images: they are scaled to [0, 1] and converted to channels first.
Floats are converted to the model's dtype. Other integers, such as token ids, stay integers.
"""

import torch
from torch import Tensor

from eunoe.data.samples import DataSet
from eunoe.errors import InputError


class Preprocess:
    """Turns stored inputs of one data set into model inputs."""

    def __init__(self, data: DataSet, dtype: torch.dtype = torch.float32) -> None:
        stored = data.train.x
        self.dtype = dtype
        self._bytes = stored.dtype == torch.uint8
        # Whether the model sees integers, such as token ids.
        self.integers = not (self._bytes or stored.is_floating_point())
        self._add_channel = self._bytes and stored.ndim == 3
        self._channels_first = self._bytes and stored.ndim == 4
        if self._bytes and stored.ndim > 4:
            raise InputError(f"images must be [n, height, width(, channels)], not {list(stored.shape)}")
        mean = torch.tensor(data.mean or (0.0,), dtype=torch.float64)
        std = torch.tensor(data.std or (1.0,), dtype=torch.float64)
        if data.mean is not None and self.integers:
            raise InputError("integer inputs (token ids, say) are not normalized: leave mean and std out")
        if not bool((std > 0).all()):
            raise InputError("the standard deviation to normalize by must be above 0")
        images = self._add_channel or self._channels_first
        numbers = 1 if self._add_channel else stored.shape[-1]
        for name, value in (("mean", mean), ("std", std)):
            if len(value) not in (1, numbers):
                raise InputError(f"{name} must be 1 or {numbers} numbers for these inputs, not {len(value)}")
        # (x / 255 - mean) / std as one multiplication and one addition.
        form = (-1, 1, 1) if images else (-1,)
        self.scale = (1 / (std * (255 if self._bytes else 1))).to(dtype).view(form)
        self.shift = (-mean / std).to(dtype).view(form)
        # The value of a black pixel after normalization.
        self.black = self.shift if self._bytes else None
        self._plain = data.mean is None and not self._bytes

    def __call__(self, x: Tensor) -> Tensor:
        return self.apply(x, self.scale, self.shift)

    def apply(self, x: Tensor, scale: Tensor, shift: Tensor) -> Tensor:
        """Model inputs by this scale and shift, which may be copies on another device."""
        if self.integers:
            return x.long()
        if self._add_channel:
            x = x.unsqueeze(1)
        elif self._channels_first:
            x = x.permute(0, 3, 1, 2)
        # Images keep their stored (channels-last) layout, which is fastest for convolutions on a CPU.
        x = x.to(self.dtype)
        return x if self._plain else torch.addcmul(shift, x, scale)

    @property
    def steps(self) -> list[str]:
        """What is done to a stored batch, in words, for those who load the model without this library."""
        if self.integers:
            return ["convert to int64"]
        steps = ["add a dimension of 1 channel: [n, H, W] to [n, 1, H, W]"] if self._add_channel else []
        if self._channels_first:
            steps = ["move the channels first: [n, H, W, C] to [n, C, H, W]"]
        steps.append(f"convert to {str(self.dtype).removeprefix('torch.')}")
        if self._bytes:
            steps.append("divide by 255")
        if not self._plain:
            steps.append(
                "subtract mean and divide by std, which have a number for all or one for each "
                + ("channel" if self._add_channel or self._channels_first else "entry of the last dimension")
            )
        return steps

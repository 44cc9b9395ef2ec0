"""A model that takes inputs as they are stored: the preprocessing belongs to the module."""

from torch import Tensor, nn

from eunoe.data.preprocess import Preprocess


class RawModel(nn.Module):
    """Logits of stored inputs, such as bytes [n, H, W, channels]; `model` is what was trained."""

    def __init__(self, model: nn.Module, preprocess: Preprocess) -> None:
        super().__init__()
        self.model = model
        self._preprocess = preprocess
        self.scale: Tensor
        self.shift: Tensor
        # Copies, which move to another device with the module.
        self.register_buffer("scale", preprocess.scale.clone())
        self.register_buffer("shift", preprocess.shift.clone())

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.model(self._preprocess.apply(x, self.scale, self.shift))
        return logits

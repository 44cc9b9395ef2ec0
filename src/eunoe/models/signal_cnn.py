"""A small network for windows of signals, such as those of a sensor."""

from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.errors import InputError
from eunoe.models.base import Classifier, Width


class SignalCNN(Classifier):
    """Two convolutions over time (7 and 5 steps wide), each pooled, and the mean over time.

    Inputs are [time, channels]; `width` is the channels of the first convolution, the second has twice as
    many.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, *, width: Width = 32) -> None:
        super().__init__()
        if len(shape) != 2 or shape[0] < 4:
            raise InputError(
                f"model 'signal_cnn' needs windows [time, channels] of at least 4 steps, not inputs of shape "
                f"{list(shape)}"
            )
        self.first = nn.Conv1d(shape[1], width, 7, padding=3)
        self.second = nn.Conv1d(width, 2 * width, 5, padding=2)
        self.classifier = nn.Linear(2 * width, classes)

    def features(self, x: Tensor) -> Tensor:
        x = F.relu(F.max_pool1d(self.first(x.transpose(1, 2)), 2))
        return F.relu(F.max_pool1d(self.second(x), 2)).mean(2)

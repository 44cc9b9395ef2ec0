"""The convolutional network of McMahan et al. (2017), which the FedNTD and Flashback papers use too."""

from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.models.base import Classifier, Width, channels_last, image_shape, pool_relu


class CNN(Classifier):
    """McMahan's CNN: two 5 x 5 convolutions (32, 64), each pooled, and a hidden layer of 512.

    `width` is the number of channels of the first convolution; all other layers scale with it.
    """

    def __init__(self, shape: tuple[int, ...], classes: int, *, width: Width = 32) -> None:
        super().__init__()
        channels, high, wide = image_shape("cnn", shape, least=4)
        self.first = nn.Conv2d(channels, width, 5, padding=2)
        self.second = nn.Conv2d(width, 2 * width, 5, padding=2)
        self.hidden = nn.Linear(2 * width * (high // 4) * (wide // 4), 16 * width)
        self.classifier = nn.Linear(16 * width, classes)

    def features(self, x: Tensor) -> Tensor:
        x = pool_relu(self.first(channels_last(x)))
        return F.relu(self.hidden(pool_relu(self.second(x)).flatten(1)))

"""The convolutional network of McMahan et al. (2017), which the FedNTD and Flashback papers use too."""

from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.models.base import Classifier, channels_last, image_shape, pool_relu


class CNN(Classifier):
    """McMahan's CNN: two 5 x 5 convolutions (32, 64), each pooled, and a hidden layer of 512."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        channels, height, width = image_shape("cnn", shape, least=4)
        self.first = nn.Conv2d(channels, 32, 5, padding=2)
        self.second = nn.Conv2d(32, 64, 5, padding=2)
        self.hidden = nn.Linear(64 * (height // 4) * (width // 4), 512)
        self.classifier = nn.Linear(512, classes)

    def features(self, x: Tensor) -> Tensor:
        x = pool_relu(self.first(channels_last(x)))
        return F.relu(self.hidden(pool_relu(self.second(x)).flatten(1)))

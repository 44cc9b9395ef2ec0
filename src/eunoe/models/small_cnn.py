"""A convolutional network of some 6,000 parameters for the embedded 8 x 8 digits."""

from torch import Tensor, nn

from eunoe.models.base import Classifier, channels_last, image_shape, pool_relu


class SmallCNN(Classifier):
    """Two 3 x 3 convolutions (16, 32), each pooled, and a linear classifier; for images as small as 4 x 4."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        channels, height, width = image_shape("small_cnn", shape, least=4)
        self.first = nn.Conv2d(channels, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.classifier = nn.Linear(32 * (height // 4) * (width // 4), classes)

    def features(self, x: Tensor) -> Tensor:
        x = pool_relu(self.first(channels_last(x)))
        return pool_relu(self.second(x)).flatten(1)

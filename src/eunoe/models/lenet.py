"""LeNet (LeCun et al., 1998) with ReLU and max-pooling, as the WSM and MOON papers use it on CIFAR."""

from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.models.base import Classifier, channels_last, image_shape, pool_relu


class LeNet(Classifier):
    """LeNet: two 5 x 5 convolutions (6, 16) without padding, each pooled, and hidden layers of 120 and 84.

    The WSM authors' code pads the second convolution, which fits 24 x 24 images only; here neither is padded.
    """

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        channels, height, width = image_shape("lenet", shape, least=16)
        self.first = nn.Conv2d(channels, 6, 5)
        self.second = nn.Conv2d(6, 16, 5)
        self.hidden = nn.Linear(16 * (height // 4 - 3) * (width // 4 - 3), 120)
        self.last_hidden = nn.Linear(120, 84)
        self.classifier = nn.Linear(84, classes)

    def features(self, x: Tensor) -> Tensor:
        x = pool_relu(self.first(channels_last(x)))
        x = F.relu(self.hidden(pool_relu(self.second(x)).flatten(1)))
        return F.relu(self.last_hidden(x))

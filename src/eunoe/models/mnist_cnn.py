"""The network of PyTorch's MNIST example as it was in October 2019, which the FedCurv paper trains."""

from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.models.base import Classifier, channels_last, image_shape, pool_relu


class MnistCNN(Classifier):
    """PyTorch's 2019 MNIST example: two 5 x 5 convolutions (20, 50), each pooled, and a hidden layer of 500.

    It has no dropout, unlike the later example. It returns logits; the log-softmax is part of the loss here.
    """

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        channels, height, width = image_shape("mnist_cnn", shape, least=16)
        self.first = nn.Conv2d(channels, 20, 5)
        self.second = nn.Conv2d(20, 50, 5)
        self.hidden = nn.Linear(50 * (height // 4 - 3) * (width // 4 - 3), 500)
        self.classifier = nn.Linear(500, classes)

    def features(self, x: Tensor) -> Tensor:
        x = pool_relu(self.first(channels_last(x)))
        return F.relu(self.hidden(pool_relu(self.second(x)).flatten(1)))

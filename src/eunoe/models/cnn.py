"""Convolutional networks for small images and signals: two convolutions, each pooled, and linear layers."""

from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.errors import InputError
from eunoe.models.base import Classifier, Width, channels_last, image_shape, pool_relu


class CNN(Classifier):
    """McMahan's CNN (2017): two 5 x 5 convolutions (32, 64), each pooled, and a hidden layer of 512.

    The FedNTD and Flashback papers use it too. `width` is the number of channels of the first convolution;
    all other layers scale with it.
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


class LeNet(Classifier):
    """LeNet: two 5 x 5 convolutions (6, 16) without padding, each pooled, and hidden layers of 120 and 84.

    LeCun et al. (1998), with ReLU and max-pooling as in the WSM and MOON papers. The WSM authors' code pads
    the second convolution, which fits 24 x 24 images only; here neither is padded.
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


class MnistCNN(Classifier):
    """PyTorch's 2019 MNIST example: two 5 x 5 convolutions (20, 50), each pooled, and a hidden layer of 500.

    The FedCurv paper trains it. It has no dropout, unlike the later example. It returns logits; the
    log-softmax is part of the loss here.
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


class SmallCNN(Classifier):
    """Two 3 x 3 convolutions (16, 32), each pooled, and a linear classifier; for images from 4 x 4 pixels."""

    def __init__(self, shape: tuple[int, ...], classes: int) -> None:
        super().__init__()
        channels, height, width = image_shape("small_cnn", shape, least=4)
        self.first = nn.Conv2d(channels, 16, 3, padding=1)
        self.second = nn.Conv2d(16, 32, 3, padding=1)
        self.classifier = nn.Linear(32 * (height // 4) * (width // 4), classes)

    def features(self, x: Tensor) -> Tensor:
        x = pool_relu(self.first(channels_last(x)))
        return pool_relu(self.second(x)).flatten(1)


class SignalCNN(Classifier):
    """Two convolutions over time (`width` and twice as many channels), pooled, and the mean over time."""

    def __init__(self, shape: tuple[int, ...], classes: int, *, width: Width = 32) -> None:
        super().__init__()
        if len(shape) != 2 or shape[0] < 4:
            raise InputError(f"model 'signal_cnn' needs at least 4 steps [time, channels], not {list(shape)}")
        self.first = nn.Conv1d(shape[1], width, 7, padding=3)
        self.second = nn.Conv1d(width, 2 * width, 5, padding=2)
        self.classifier = nn.Linear(2 * width, classes)

    def features(self, x: Tensor) -> Tensor:
        x = F.relu(F.max_pool1d(self.first(x.transpose(1, 2)), 2))
        return F.relu(F.max_pool1d(self.second(x), 2)).mean(2)

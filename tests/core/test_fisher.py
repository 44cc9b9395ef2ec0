"""Sums of squared per-sample gradients against one backward pass per sample."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.core.fisher import sum_of_squared_gradients
from eunoe.core.flat_model import FlatModel


class Twice(nn.Module):
    """A layer that is used twice, a free parameter, and positions beside samples."""

    def __init__(self) -> None:
        super().__init__()
        self.again = nn.Linear(6, 6)
        self.scale = nn.Parameter(torch.rand(6))
        self.last = nn.Linear(6, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)[:, :12].view(-1, 2, 6)
        x = torch.tanh(self.again(torch.tanh(self.again(x)))) * self.scale
        return self.last(x).mean(1)


class InPlace(nn.Module):
    """Layers whose outputs are overwritten."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Conv2d(2, 3, 3), nn.Linear(3 * 16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(self.first(x).relu_().flatten(1))


def tied() -> nn.Module:
    one, other = nn.Linear(72, 72), nn.Linear(72, 72)
    other.weight = one.weight
    return nn.Sequential(nn.Flatten(), one, nn.Tanh(), other, nn.Tanh(), nn.Linear(72, 3))


def partly_frozen() -> nn.Module:
    model = nn.Sequential(nn.Flatten(), nn.Linear(72, 5), nn.Tanh(), nn.Linear(5, 3))
    model[1].bias.requires_grad_(False)
    return model


def convolution(**options: int | str) -> nn.Module:
    layer = nn.Conv2d(2, 4, 3, **options)
    return nn.Sequential(layer, nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(16, 3))


MODELS = {
    "linear": lambda: nn.Sequential(nn.Flatten(), nn.Linear(72, 5, bias=False), nn.Tanh(), nn.Linear(5, 3)),
    "convolution": lambda: convolution(),
    "padded": lambda: convolution(padding=1),
    "strided": lambda: convolution(stride=2, padding=1, bias=False),
    "dilated": lambda: convolution(dilation=2),
    "grouped": lambda: convolution(groups=2),
    "circular": lambda: convolution(padding=1, padding_mode="circular"),
    "same": lambda: convolution(padding="same"),
    "group norm": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    ),
    "batch norm": lambda: nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(64, 3)
    ),
    "dropout": lambda: nn.Sequential(nn.Flatten(), nn.Dropout(0.5), nn.Linear(72, 3)),
    "twice": Twice,
    "in place": InPlace,
    "tied": tied,
    "partly frozen": partly_frozen,
}


@pytest.mark.parametrize("name", MODELS)
def test_against_one_sample_at_a_time(name: str) -> None:
    torch.manual_seed(1)
    model = FlatModel(MODELS[name](), torch.float64)
    x, y = torch.randn(7, 2, 6, 6, dtype=torch.float64), torch.randint(0, 3, (7,))
    before = model.weights.copy()
    model.module.train()
    found = sum_of_squared_gradients(model, x, y)
    assert model.module.training
    assert torch.equal(model.float_buffers, before.float_buffers)
    expected = torch.zeros_like(model.parameters)
    with model.evaluating():
        for one, label in zip(x, y, strict=True):
            model.gradient.zero_()
            F.cross_entropy(model.forward(one[None]), label[None]).backward()
            expected += model.gradient**2
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-14)

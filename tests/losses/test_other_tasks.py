"""Losses of labels and of numbers: worked by hand, under vmap, in either type."""

import math

import pytest
import torch
from torch.func import grad, vmap

from eunoe.core.tasks import MULTILABEL, Regression
from eunoe.losses import Loss, client_loss
from eunoe.losses.other_tasks import BinaryCrossEntropy, Huber, MeanSquaredError

NONE = torch.zeros(2)


def test_binary_cross_entropy_by_hand() -> None:
    outputs, labels = torch.tensor([[0.0, math.log(4)]]), torch.tensor([[1.0, 0.0]])
    found = BinaryCrossEntropy().per_sample(outputs, labels, NONE)
    assert found.tolist() == pytest.approx([(math.log(2) + math.log(5)) / 2])


def test_huber_is_the_squared_error_nearby_and_a_line_beyond() -> None:
    outputs, targets = torch.tensor([[0.5], [3.0]]), torch.zeros(2, 1)
    assert MeanSquaredError().per_sample(outputs, targets, NONE).tolist() == [0.25, 9.0]
    # 2 delta |e| - delta^2 at |e| = 3.
    assert Huber(delta=1.0).per_sample(outputs, targets, NONE).tolist() == [0.25, 5.0]
    assert Huber(delta=10.0).per_sample(outputs, targets, NONE).tolist() == [0.25, 9.0]


@pytest.mark.parametrize("loss", [BinaryCrossEntropy(), MeanSquaredError(), Huber(delta=0.5)])
def test_they_vectorize_and_every_client_learns(loss: Loss) -> None:
    outputs, targets = torch.randn(5, 2), (torch.rand(5, 2) > 0.5).float()
    one = grad(lambda z, y: loss.per_sample(z[None], y[None], NONE)[0])
    together = vmap(one)(outputs, targets)
    assert torch.allclose(together, torch.stack([one(z, y) for z, y in zip(outputs, targets, strict=True)]))
    assert loss.per_sample(outputs.double(), targets, NONE.double()).dtype == torch.float64
    assert loss.learns_from(torch.tensor([3.0, 0.0]))


def test_the_plain_losses_are_those_of_the_tasks() -> None:
    outputs, targets = torch.randn(5, 2), (torch.rand(5, 2) > 0.5).float()
    assert client_loss("bce", [1, 1])(outputs, targets) == MULTILABEL.losses(outputs, targets).mean()
    assert client_loss("mse", [1, 1])(outputs, targets) == Regression().losses(outputs, targets).mean()

"""Steps on flat vectors against torch.optim, and on a matrix with a row per client."""

from typing import Any

import pytest
import torch
from torch import Tensor

from eunoe.config.options import Training
from eunoe.core.optimizer import descend

OPTIONS: list[dict[str, Any]] = [
    {"optimizer": "sgd"},
    {"optimizer": "sgd", "momentum": 0.9},
    {"optimizer": "adam"},
    {"optimizer": "adamw", "weight_decay": 0.1},
    {"optimizer": "sgd", "clip": 0.5},
]


def gradients(steps: int, *shape: int) -> Tensor:
    return torch.randn(steps, *shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def descended(options: dict[str, Any], start: Tensor, steps: Tensor) -> Tensor:
    training, weights, moments = Training(lr=0.1, **options), start.clone(), dict[str, Tensor]()
    for number, gradient in enumerate(steps, 1):
        before = gradient.clone()
        descend(weights, gradient, training, 0.1, training.weight_decay, moments, number)
        assert torch.equal(gradient, before)
    return weights


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_steps_are_those_of_torch(options: dict[str, Any]) -> None:
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    kept = {key: value for key, value in options.items() if key in ("momentum", "weight_decay")}
    start = torch.linspace(-1, 1, 6, dtype=torch.float64)
    parameter = torch.nn.Parameter(start.clone())
    optimizer = kinds[options["optimizer"]]([parameter], lr=0.1, **kept)
    for gradient in gradients(5, 6):
        parameter.grad = gradient.clone()
        if "clip" in options:
            torch.nn.utils.clip_grad_norm_([parameter], options["clip"])
        optimizer.step()
    expected = parameter.detach()
    # PyTorch adds 1e-6 to a norm before it divides by it.
    torch.testing.assert_close(descended(options, start, gradients(5, 6)), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_rows_of_a_matrix_are_clients_of_their_own(options: dict[str, Any]) -> None:
    start, steps = torch.ones(3, 4, dtype=torch.float64), gradients(5, 3, 4)
    together = descended(options, start, steps)
    for client in range(3):
        alone = descended(options, start[client], steps[:, client])
        torch.testing.assert_close(together[client], alone, rtol=1e-13, atol=1e-13)


def test_a_gradient_within_the_clip_is_left_alone() -> None:
    start, small = torch.zeros(2, dtype=torch.float64), torch.tensor([[0.3, 0.4]], dtype=torch.float64)
    assert descended({"clip": 0.6}, start, small).tolist() == pytest.approx([-0.03, -0.04])
    assert descended({"clip": 0.25}, start, small).tolist() == pytest.approx([-0.015, -0.02])

"""MOON's projection head on top of other models."""

import pytest
import torch
from torch import nn
from torch.func import functional_call, stack_module_state, vmap

from eunoe.errors import InputError
from eunoe.models.classifiers import add_head
from eunoe.models.cnn import CNN, LeNet
from eunoe.models.mlp import MLP


def size(model: nn.Module) -> int:
    return sum(p.numel() for p in model.parameters())


def test_parameters_of_the_head_replace_the_classifier() -> None:
    base = LeNet((3, 32, 32), 10)
    headed = add_head(base, 10)
    assert size(headed) == 62_006 - 85 * 10 + 85 * 84 + 85 * 256 + 257 * 10
    assert size(base) == 62_006
    assert not any(name.startswith("body.classifier") for name, _ in headed.named_parameters())
    assert size(add_head(CNN((3, 32, 32), 10), 7, out=3)) == 2_156_490 - 5_130 + 513 * 512 + 513 * 3 + 4 * 7


def test_features_are_the_projection() -> None:
    base = MLP((6,), 4, hidden=[5])
    headed = add_head(base, 4, out=3)
    x = torch.randn(2, 6, generator=torch.Generator().manual_seed(1))
    h = base.features(x)
    z = torch.relu(h @ headed.hidden.weight.T + headed.hidden.bias) @ headed.projection.weight.T
    z = z + headed.projection.bias
    torch.testing.assert_close(headed.features(x), z)
    torch.testing.assert_close(headed(x), headed.classifier(z))
    assert headed.features(x[:1]).shape == (1, 3)


def test_the_given_model_keeps_its_classifier_and_weights() -> None:
    base = MLP((6,), 4, hidden=[5])
    headed = add_head(base, 4)
    with torch.no_grad():
        for p in headed.parameters():
            p.zero_()
    assert isinstance(base.classifier, nn.Linear)
    assert all(bool(p.any()) for p in base.parameters())


def test_vmap() -> None:
    models = [add_head(LeNet((1, 16, 16), 3), 3, out=8) for _ in range(2)]
    weights, _ = stack_module_state(models)
    x = torch.randn(2, 4, 1, 16, 16, generator=torch.Generator().manual_seed(1))
    logits = vmap(lambda w, x: functional_call(models[0], w, (x,)))(weights, x)
    for client, model in enumerate(models):
        torch.testing.assert_close(logits[client], model(x[client]), rtol=1e-4, atol=1e-5)


def test_own_models() -> None:
    class Own(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.classifier = nn.Sequential(nn.ReLU(), nn.Linear(6, 3))

        def features(self, x: torch.Tensor) -> torch.Tensor:
            return x

    assert add_head(Own(), 3, out=2)(torch.zeros(2, 6)).shape == (2, 3)
    with pytest.raises(InputError, match="needs a model with features"):
        add_head(nn.Linear(3, 2), 2)
    odd = Own()
    odd.classifier = nn.Sequential(nn.ReLU())
    with pytest.raises(InputError, match="needs a linear classifier"):
        add_head(odd, 2)

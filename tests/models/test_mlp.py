"""The multi-layer perceptron by hand."""

import torch

from eunoe.models.mlp import MLP


def test_mlp_by_hand() -> None:
    model = MLP((2,), 1, hidden=[2])
    with torch.no_grad():
        model.hidden[0].weight.copy_(torch.tensor([[1.0, 2.0], [-1.0, 0.0]]))
        model.hidden[0].bias.copy_(torch.tensor([0.5, 0.0]))
        model.classifier.weight.copy_(torch.tensor([[3.0, 5.0]]))
        model.classifier.bias.fill_(1.0)
    assert model(torch.tensor([[1.0, 1.0], [-1.0, 0.0]])).flatten().tolist() == [11.5, 6.0]

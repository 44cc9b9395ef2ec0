"""What the networks share: image shapes, the classifier's bias, memory layout, pooling."""

import pytest
import torch
from torch import nn

from eunoe.errors import InputError
from eunoe.models.base import channels_last, image_shape, pool_relu
from eunoe.models.classifiers import remove_bias
from eunoe.models.mlp import MLP


def test_pooling_first_leaves_dead_windows_without_gradient() -> None:
    x = torch.tensor([[-1.0, -2.0, 3.0, 1.0], [-3.0, -0.5, 2.0, 0.0]], requires_grad=True)
    pooled = pool_relu(x[None, None])
    pooled.sum().backward()
    assert pooled.flatten().tolist() == [0, 3]
    assert x.grad is not None
    assert x.grad.tolist() == [[0, 0, 1, 0], [0, 0, 0, 0]]


@pytest.mark.parametrize("shape", [(3, 32, 32), (1, 28, 28)])
def test_channels_last_marks_every_image(shape: tuple[int, ...]) -> None:
    x = torch.randn(3, *shape)
    laid = channels_last(x)
    assert torch.equal(laid, x)
    assert laid.stride(1) == 1
    assert channels_last(laid).data_ptr() == laid.data_ptr()


def test_only_images_that_are_large_enough_are_taken() -> None:
    assert image_shape("cnn", (3, 8, 4), least=4) == (3, 8, 4)
    for shape in ((3, 8, 3), (8, 8), (0, 8, 8), (1, 3, 8, 8)):
        with pytest.raises(InputError, match=r"model 'cnn' needs images .* of at least 4 x 4 pixels"):
            image_shape("cnn", shape, least=4)


def test_the_last_layers_bias_is_removed_and_no_other() -> None:
    model = MLP((2,), 3, hidden=[4])
    remove_bias(model)
    assert [name for name, _ in model.named_parameters()] == [
        "hidden.0.weight",
        "hidden.0.bias",
        "classifier.weight",
    ]
    with pytest.raises(InputError, match="needs a linear classifier in Sequential"):
        remove_bias(nn.Sequential(nn.Linear(2, 3)))

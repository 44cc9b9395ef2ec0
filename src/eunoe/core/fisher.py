"""Sums of squared per-sample gradients, batched: the diagonal of the empirical Fisher information.

The gradient of a linear layer for one sample is the outer product of its output gradient and its input, so
the sum of squares over samples is one product of squared matrices. That of a convolution is a batched matrix
product. Other parameters (normalization, a layer used twice) need `torch.func.vmap` of a gradient, in pieces.
"""

from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F

from eunoe.core.fields import Input, logits_of, split
from eunoe.core.flat_model import FlatModel
from eunoe.core.tasks import CLASSIFICATION, Task

# Size of the per-sample gradients computed at a time: small enough for the cache.
_AT_ONCE = 1 << 20


def sum_of_squared_gradients(model: FlatModel, x: Input, y: Tensor, task: Task = CLASSIFICATION) -> Tensor:
    """Return the sum over samples of the squared gradient of the task's loss, at the model's weights."""
    calls: dict[nn.Module, list[tuple[Tensor, GradientEdge]]] = {layer: [] for layer in _layers(model.module)}

    def remember(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        calls[layer].append((inputs[0].detach(), get_gradient_edge(output)))

    hooks = [layer.register_forward_hook(remember) for layer in calls]
    try:
        with model.evaluating():
            loss = task.losses(model.forward(x), y).sum()
    finally:
        for hook in hooks:
            hook.remove()
    known = {
        layer: called[0]
        for layer, called in calls.items()
        if len(called) == 1 and len(called[0][0]) == len(y)
    }
    backs = torch.autograd.grad(loss, [edge for _, edge in known.values()]) if known else ()
    computed: dict[int, Tensor] = {}
    for (layer, (inputs, _)), back in zip(known.items(), backs, strict=True):
        for parameter, squares in _squares(layer, inputs, back):
            computed[id(parameter)] = squares
    named = {name: model.module.get_parameter(name) for name in model.names}
    rest = {name: parameter.detach() for name, parameter in named.items() if id(parameter) not in computed}
    others = _by_vmap(model, rest, x, y, task) if rest else {}
    return torch.cat(
        [(others[name] if name in rest else computed[id(p)]).reshape(-1) for name, p in named.items()]
    )


def _layers(module: nn.Module) -> list[nn.Module]:
    """Return linear layers and plain convolutions that share no parameter with another layer."""
    owners = Counter(id(p) for layer in module.modules() for p in layer.parameters(recurse=False))
    return [
        layer
        for layer in module.modules()
        if (
            type(layer) is nn.Linear
            or (
                type(layer) is nn.Conv2d
                and layer.groups == 1
                and layer.padding_mode == "zeros"
                and isinstance(layer.padding, tuple)
            )
        )
        and all(p.requires_grad and owners[id(p)] == 1 for p in layer.parameters(recurse=False))
    ]


def _squares(layer: Any, inputs: Tensor, back: Tensor) -> list[tuple[nn.Parameter, Tensor]]:
    if isinstance(layer, nn.Linear) and inputs.ndim == 2:
        weight, bias = back.square().T @ inputs.square(), back
    else:
        weight = torch.zeros_like(layer.weight).flatten(1)
        pieces = max(1, _AT_ONCE // layer.weight.numel())
        for x, dy in zip(torch.split(inputs, pieces), torch.split(back, pieces), strict=True):
            if isinstance(layer, nn.Linear):
                gradients = torch.bmm(dy.flatten(1, -2).mT, x.flatten(1, -2))
            else:
                gradients = torch.bmm(dy.flatten(2), _windows(layer, x, dy.shape[2:]))
            weight += gradients.square_().sum(0)
        if isinstance(layer, nn.Conv2d):
            weight = weight.view(len(weight), *layer.kernel_size, -1).permute(0, 3, 1, 2)
        places = tuple(range(1, back.ndim - 1)) if isinstance(layer, nn.Linear) else (2, 3)
        bias = back.sum(places)
    squares = [(layer.weight, weight)]
    if layer.bias is not None:
        squares.append((layer.bias, bias.square().sum(0)))
    return squares


def _windows(layer: nn.Conv2d, x: Tensor, places: tuple[int, ...]) -> Tensor:
    """Return the inputs of a convolution at each position, [B, positions, height * width * channels]."""
    above, beside = (int(padding) for padding in layer.padding)
    padded = F.pad(x.permute(0, 2, 3, 1), (0, 0, beside, beside, above, above)).contiguous()
    image, row, pixel, _ = padded.stride()
    size = (len(x), *places, *layer.kernel_size, x.shape[1])
    (down, right), (lower, further) = layer.stride, layer.dilation
    stride = (image, row * down, pixel * right, row * lower, pixel * further, 1)
    return padded.as_strided(size, stride).reshape(len(x), places[0] * places[1], -1)


def _by_vmap(
    model: FlatModel, named: dict[str, Tensor], x: Input, y: Tensor, task: Task
) -> dict[str, Tensor]:
    def loss(parameters: dict[str, Tensor], sample: Input, label: Tensor) -> Tensor:
        logits = logits_of(functional_call(model.module, parameters, *model.arguments_of(sample[None])))
        return task.losses(logits, label.unsqueeze(0))[0]

    pieces = max(1, _AT_ONCE // sum(value.numel() for value in named.values()))
    total = {name: torch.zeros_like(value) for name, value in named.items()}
    with model.evaluating():
        for part, labels in zip(split(x, pieces), torch.split(y, pieces), strict=True):
            gradients = vmap(grad(loss), (None, 0, 0))(named, part, labels)
            for name, value in gradients.items():
                total[name] += value.square().sum(0)
    return total

"""Sums of squared per-sample gradients, batched: the diagonal of the empirical Fisher information.

The gradient of a linear layer for one sample is the outer product of its output gradient and its input, so
the sum of squares over samples is one product of squared matrices. Other parameters (convolutions,
normalization, a layer used twice) need `torch.func.vmap` of a gradient, in pieces.
"""

from collections import Counter

import torch
from torch import Tensor, nn
from torch.autograd.graph import GradientEdge, get_gradient_edge
from torch.func import functional_call, grad, vmap

from eunoe.core.fields import Input, logits_of, split
from eunoe.core.flat_model import FlatModel
from eunoe.core.tasks import CLASSIFICATION, Task

# Size of the per-sample gradients computed at a time: small enough for the cache.
_AT_ONCE = 1 << 20


def sum_of_squared_gradients(model: FlatModel, x: Input, y: Tensor, task: Task = CLASSIFICATION) -> Tensor:
    """Return the sum over samples of the squared gradient of the task's loss, at the model's weights."""
    calls: dict[nn.Linear, list[tuple[Tensor, GradientEdge]]] = {layer: [] for layer in _layers(model.module)}

    def remember(layer: nn.Linear, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        calls[layer].append((inputs[0].detach(), get_gradient_edge(output)))

    hooks = [layer.register_forward_hook(remember) for layer in calls]
    try:
        with model.evaluating():
            loss = task.losses(model.forward(x), y).sum()
    finally:
        for hook in hooks:
            hook.remove()
    # Called once, with a vector for each sample.
    known = {
        layer: called[0]
        for layer, called in calls.items()
        if len(called) == 1 and called[0][0].ndim == 2 and len(called[0][0]) == len(y)
    }
    backs = torch.autograd.grad(loss, [edge for _, edge in known.values()]) if known else ()
    computed: dict[int, Tensor] = {}
    for (layer, (inputs, _)), back in zip(known.items(), backs, strict=True):
        computed[id(layer.weight)] = back.square().T @ inputs.square()
        computed[id(layer.bias)] = back.square().sum(0)
    named = {name: model.module.get_parameter(name) for name in model.names}
    rest = {name: parameter.detach() for name, parameter in named.items() if id(parameter) not in computed}
    others = _by_vmap(model, rest, x, y, task) if rest else {}
    return torch.cat([(others[n] if n in rest else computed[id(p)]).reshape(-1) for n, p in named.items()])


def _layers(module: nn.Module) -> list[nn.Linear]:
    """Return linear layers that share no parameter with another layer."""
    owners = Counter(id(p) for layer in module.modules() for p in layer.parameters(recurse=False))
    return [
        layer
        for layer in module.modules()
        if type(layer) is nn.Linear
        and all(p.requires_grad and owners[id(p)] == 1 for p in layer.parameters(recurse=False))
    ]


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

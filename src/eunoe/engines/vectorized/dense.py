"""Steps of linear layers with ReLU between them, for all clients of a stack at once.

For multi-layer perceptrons and logistic regression with a softmax loss, forward and backward passes are a few
products of matrices. Written out they need a fraction of the operations that vmap and autograd give.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from eunoe.core.flat_model import FlatModel
from eunoe.engines.simulation import Simulation
from eunoe.losses.base import Loss
from eunoe.losses.cross_entropy import CrossEntropy
from eunoe.methods.base import Method
from eunoe.methods.context import Batch
from eunoe.models.mlp import MLP, Logistic


class Layer(NamedTuple):
    """Where the weight and the bias of a linear layer are in the vector of parameters."""

    weight: slice
    bias: slice | None
    outputs: int


# The weights [clients, outputs, inputs] and biases of the layers.
Parameters = list[tuple[Tensor, Tensor | None]]


class Dense:
    """Linear layers with ReLU between them; parameters are a matrix with a row per client."""

    def __init__(self, layers: list[Layer]) -> None:
        self.layers = layers

    def split(self, weights: Tensor) -> Parameters:
        """Return the parameters by layer, as views."""
        return [
            (
                weights[:, layer.weight].view(len(weights), layer.outputs, -1),
                None if layer.bias is None else weights[:, layer.bias],
            )
            for layer in self.layers
        ]

    def copy(self, weights: Tensor) -> Parameters:
        """Return copies of the parameters by layer, on which steps are faster than on views."""
        return [(_contiguous(w), None if b is None else _contiguous(b)) for w, b in self.split(weights)]

    def join(self, parameters: Parameters, weights: Tensor) -> Tensor:
        """Write parameters by layer to a matrix with a row per client."""
        for (into, into_bias), (weight, bias) in zip(self.split(weights), parameters, strict=True):
            into.copy_(weight)
            if into_bias is not None and bias is not None:
                into_bias.copy_(bias)
        return weights

    def logits(self, parameters: Parameters, x: Tensor) -> list[Tensor]:
        """Return the layers' inputs [clients, samples, features] and logits [clients, classes, samples]."""
        values = [x]
        *hidden, (last, last_bias) = parameters
        for weight, bias in hidden:
            value = torch.bmm(values[-1], weight.transpose(1, 2))
            values.append((value if bias is None else value.add_(bias[:, None])).relu_())
        outputs = torch.bmm(last, values[-1].transpose(1, 2))
        return [*values, outputs if last_bias is None else outputs.add_(last_bias[..., None])]

    def losses(self, parameters: Parameters, batch: Batch, terms: Tensor | None) -> Tensor:
        """Return each client's mean loss."""
        logits = _shifted(self.logits(parameters, _flat(batch))[-1], terms)
        losses = logits.log_softmax(1).gather(1, batch.y[:, None])
        if batch.mask is not None:
            losses = torch.where(batch.mask[:, None], losses, 0)
        return -(losses * _shares(batch, 1.0)).sum((1, 2))

    def gradient(self, parameters: Parameters, batch: Batch, terms: Tensor | None) -> Tensor:
        """Return the gradients of the mean losses, with a row per client."""
        parts = self._changes(parameters, batch, terms, 1.0)
        changes: Parameters = [(torch.bmm(change, x), total) for change, x, total in parts]
        size = max(s.stop for layer in self.layers for s in (layer.weight, layer.bias) if s is not None)
        return self.join(changes[::-1], changes[0][0].new_empty(len(batch.y), size))

    def descend(self, parameters: Parameters, batch: Batch, terms: Tensor | None, lr: float | Tensor) -> None:
        """Take a plain step of gradient descent in place; learning rates may be a column."""
        changes = self._changes(parameters, batch, terms, lr)
        for (weight, bias), (change, x, total) in zip(reversed(parameters), changes, strict=True):
            weight.baddbmm_(change, x, alpha=-1)
            if bias is not None:
                bias.sub_(total)

    def _changes(
        self, parameters: Parameters, batch: Batch, terms: Tensor | None, factor: float | Tensor
    ) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield from the last layer to the first: two factors of its weight's gradient, and its bias's."""
        *inputs, logits = self.logits(parameters, _flat(batch))
        change = _shifted(logits, terms).softmax(1)
        change.scatter_(1, batch.y[:, None], -1.0, reduce="add")
        change.mul_(_shares(batch, factor))
        for (weight, _), x in zip(reversed(parameters), reversed(inputs), strict=True):
            before = change
            if x is not inputs[0]:
                # Before the weight is changed: the change of the values before it, through ReLU.
                before = torch.bmm(change.transpose(1, 2), weight)
                before = torch.ops.aten.threshold_backward(before, x, 0)
            yield change, x, change.sum(2)
            change = before.transpose(1, 2)


def _contiguous(view: Tensor) -> Tensor:
    return view.clone(memory_format=torch.contiguous_format)


def first_rows(parameters: Parameters, clients: int) -> Parameters:
    """Return the parameters of the first clients."""
    return [(weight[:clients], None if bias is None else bias[:clients]) for weight, bias in parameters]


def _flat(batch: Batch) -> Tensor:
    assert isinstance(batch.x, Tensor)
    return batch.x.flatten(2)


def _shares(batch: Batch, factor: float | Tensor) -> float | Tensor:
    """Return the weight of each sample in its client's mean loss times a factor, [clients, 1, samples]."""
    if batch.mask is not None:
        return (batch.mask * (factor / batch.mask.sum(1, keepdim=True).to(_flat(batch).dtype)))[:, None]
    shares = factor / batch.y.shape[1]
    return shares[..., None] if isinstance(shares, Tensor) else shares


def _shifted(logits: Tensor, terms: Tensor | None) -> Tensor:
    return logits if terms is None else logits.add_(terms[..., None])


def find_dense(simulation: Simulation) -> Dense | None:
    """Return the layers of a simulation's model, if model, method and loss allow to write out their steps."""
    method, model, loss = type(simulation.method), simulation.model, simulation.loss
    # Whether `correct` treats every number for itself, as the class that has it says.
    owner = next(kind for kind in method.__mro__ if "correct" in vars(kind))
    elementwise = vars(owner).get("elementwise", False)
    plain = method.loss is Method.loss and method.step is Method.step and elementwise
    softmax = type(loss).per_sample in (Loss.per_sample, CrossEntropy.per_sample)
    weighted = isinstance(loss, CrossEntropy) and loss.class_weights != "none"
    return dense_layers(model) if plain and softmax and not weighted and model.precision is None else None


def dense_layers(model: FlatModel) -> Dense | None:
    """Return the linear layers of a model; None if it has others, or some of them do not train."""
    chain = _chain(model.module)
    linear = [module for module in chain or [] if isinstance(module, nn.Linear)]
    expected = [kind for _ in linear for kind in (nn.Linear, nn.ReLU)][:-1]
    if not linear or [type(module) for module in chain or []] != expected:
        return None
    used = [p for module in linear for p in (module.weight, module.bias) if p is not None]
    # A layer that is used twice, or a parameter elsewhere, makes another network of it.
    if [id(p) for p in used] != [id(p) for p in model.module.parameters() if p.requires_grad]:
        return None
    starts = np.cumsum([0, *(parameter.numel() for parameter in used)])
    parts = iter([slice(int(start), int(end)) for start, end in pairwise(starts)])
    return Dense(
        [Layer(next(parts), None if m.bias is None else next(parts), m.out_features) for m in linear]
    )


def _chain(module: nn.Module) -> list[nn.Module] | None:
    """Return the modules that are applied one after the other; None if that is unknown."""
    if type(module) is MLP:
        return [*module.hidden, module.classifier]
    if type(module) is Logistic:
        return [module.classifier]
    if type(module) is nn.Sequential:
        first, *others = module
        return others if isinstance(first, nn.Flatten) else [first, *others]
    return [module] if type(module) is nn.Linear else None

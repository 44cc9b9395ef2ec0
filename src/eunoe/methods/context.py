"""What a method sees: facts about the run and the round, and one client's local training."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from eunoe.config.options import Training
from eunoe.core.fields import Input
from eunoe.core.flat_model import FlatModel, Weights
from eunoe.core.optimizer import descend
from eunoe.core.rng import torch_generator
from eunoe.core.tasks import CLASSIFICATION, Task
from eunoe.data.federation import Federation
from eunoe.losses.base import Loss
from eunoe.server.optimizers import ServerOptimizer
from eunoe.server.privacy import ClientPrivacy
from eunoe.server.robust import Aggregation, Mean
from eunoe.server.trainer import ServerTrainer


@dataclass(frozen=True, kw_only=True)
class ModelInfo:
    """Sizes, type and layers of the model."""

    parameters: int
    # Normalization statistics, and counters of batches.
    float_buffers: int = 0
    int_buffers: int = 0
    dtype: torch.dtype = torch.float32
    has_features: bool = False
    has_batch_norm: bool = False

    @classmethod
    def of(cls, model: FlatModel) -> "ModelInfo":
        """Describe a model."""
        sizes = {name: vector.numel() for name, vector in model.weights.vectors().items()}
        return cls(
            **sizes, dtype=model.dtype, has_features=model.has_features, has_batch_norm=model.has_batch_norm
        )


@dataclass(frozen=True, kw_only=True)
class DataInfo:
    """Clients, classes and form of the data."""

    clients: int
    classes: int
    # Mean number of training samples of a client.
    mean_size: float
    task: Task = CLASSIFICATION
    augmented: bool = False
    # Inputs such as token ids, to which nothing can be added.
    integers: bool = False
    # Inputs of several fields or of varying length.
    structured: bool = False

    @classmethod
    def of(cls, federation: Federation, augmented: bool) -> "DataInfo":
        """Describe a federation."""
        return cls(
            clients=len(federation),
            classes=federation.classes,
            mean_size=float(federation.sizes.mean()),
            task=federation.task,
            augmented=augmented,
            integers=federation.preprocess.integers,
            structured=federation.form.has_fields or federation.form.ragged,
        )


@dataclass(frozen=True, kw_only=True)
class RoundContext:
    """The facts of a run and of the round it is in."""

    data: DataInfo
    model: ModelInfo
    training: Training
    server_optimizer: ServerOptimizer
    seed: int
    # Clients that are selected in the round; outside of one, the most of any round.
    participants: int
    round: int = 0
    lr: float = 0.0
    aggregation: Aggregation = field(default_factory=Mean)
    privacy: ClientPrivacy | None = None
    # Only at the server: the public data and what trains on it.
    trainer: ServerTrainer | None = field(default=None, repr=False)


def backward(losses: Tensor, shares: Tensor) -> None:
    """Add the gradient of a weighted sum of losses to the parameters' `grad`."""
    # torch.autograd.backward without its argument checks, which take a tenth of a small step.
    torch.autograd.Variable._execution_engine.run_backward(
        (losses,), (shares,), False, False, (), allow_unreachable=True, accumulate_grad=True
    )


@dataclass(frozen=True)
class Batch:
    """Samples of one step: inputs, labels and their positions in the client's training data.

    `mask` marks the real samples where an engine pads batches to one size; None if all are real.
    """

    x: Input
    y: Tensor
    index: Tensor
    mask: Tensor | None = None


@dataclass
class Frozen:
    """A frozen network, and its outputs on the client's data if inputs are not augmented."""

    weights: Weights
    features: bool
    outputs: Tensor | None = None


class Turns(NamedTuple):
    """How many steps train the private parameters alone, and their mask; later steps train the others."""

    head_steps: int
    private: Tensor


@dataclass
class ClientContext:
    """A client in a round. Vectors have the layout of the model's trainable parameters."""

    model: FlatModel
    context: RoundContext
    id: int
    size: int
    counts: Tensor
    loss: Loss
    terms: Tensor
    start: Weights
    shared: Mapping[str, Tensor]
    state: Mapping[str, Tensor]
    steps: int
    lr: float
    weight_decay: float
    data: "Callable[[Tensor], tuple[Input, Tensor]]"
    # Inputs and labels of the client's validation part, which may be empty.
    validation: "Callable[[], tuple[Input, Tensor]]"
    # What `begin` prepares for the steps: vectors of the same size for every client, and tensors with a row
    # for each of the client's samples.
    cache: dict[str, Tensor] = field(default_factory=dict)
    rows: dict[str, Tensor] = field(default_factory=dict)
    networks: dict[str, Frozen] = field(default_factory=dict)
    # The loss of the last step: its mean, or one per sample.
    last_loss: Tensor | None = None
    moments: dict[str, Tensor] = field(default_factory=dict)
    steps_taken: int = 0
    turns: Turns | None = None
    # What losses are multiplied by in fp16.
    loss_scale: float = 2.0**15
    # Samples that went through the network, to measure what a method costs.
    forwards: int = 0
    backwards: int = 0
    # The weight of each sample in the mean of a batch, by batch size and scale.
    _shares: dict[tuple[int, float], Tensor] = field(default_factory=dict)

    @cached_property
    def generator(self) -> torch.Generator:
        """The method's own random numbers for this client and round."""
        return torch_generator(self.context.seed, "method", self.context.round, self.id)

    @property
    def weights(self) -> Tensor:
        """The parameters as they are now."""
        return self.model.parameters

    @property
    def training(self) -> Training:
        return self.context.training

    def forward(self, x: Input, at: Tensor | None = None) -> Tensor:
        """Return logits at the client's current parameters, or at others."""
        self.forwards += len(x)
        return self.model.forward(x) if at is None else self.model.forward_at(at, x)

    def features(self, x: Input, at: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Return the features before the classifier, and the logits."""
        self.forwards += len(x)
        return self.model.features_at(at, x)

    def criterion(self, logits: Tensor, labels: Tensor) -> Tensor:
        """Return the chosen loss on the client's own labels, per sample."""
        return self.loss.per_sample(logits, labels, self.terms)

    def loss_at(self, x: Input, labels: Tensor) -> Callable[[Tensor], Tensor]:
        """Return the chosen loss of a batch as a function of the parameters."""
        return lambda at: self.criterion(self.forward(x, at), labels)

    def gradient(self, loss: Callable[[], Tensor], batch: Batch) -> Tensor:
        """Return the gradient of a mean loss at the current parameters, with weight decay (a copy)."""
        self.backwards += batch.y.shape[0]
        if self.training.precision == "fp16":
            return self.decayed(self._unscale(lambda scale: self._backward(loss, scale)))
        # The model's own is overwritten by the next one, which may be of the same step.
        return self.decayed(self._backward(loss).clone())

    def _backward(self, loss: Callable[[], Tensor], scale: float = 1.0) -> Tensor:
        self.model.gradient.zero_()
        losses = loss()
        # The gradient of the mean without a graph node for it, which small steps would feel.
        size = losses.shape[0], scale
        if size not in self._shares:
            self._shares[size] = losses.new_full(size[:1], scale / size[0])
        backward(losses, self._shares[size])
        self.last_loss = losses.detach()
        return self.model.gradient

    def _unscale(self, scaled: Callable[[float], Tensor]) -> Tensor:
        """Return a gradient in fp16, of a loss scaled up; halve the scale while the gradient overflows."""
        before = self.model.float_buffers.clone(), self.model.int_buffers.clone(), self.forwards
        while True:
            gradient = scaled(self.loss_scale)
            if self.loss_scale <= 1 or bool(torch.isfinite(gradient).all()):
                return gradient / self.loss_scale
            self.loss_scale /= 2
            # As if the samples had gone through the network once.
            self.model.float_buffers.copy_(before[0])
            self.model.int_buffers.copy_(before[1])
            self.forwards = before[2]

    def gradient_at(self, at: Tensor, loss: Callable[[Tensor], Tensor], batch: Batch) -> Tensor:
        """Return the gradient of a mean loss at other parameters, without weight decay."""
        self.backwards += batch.y.shape[0]

        def scaled(scale: float) -> Tensor:
            point = at.detach().requires_grad_()
            value = loss(point).mean()
            self.last_loss = value.detach()
            return torch.autograd.grad(value, point, torch.full_like(value, scale))[0]

        return self._unscale(scaled) if self.training.precision == "fp16" else scaled(1.0)

    def decayed(self, gradient: Tensor) -> Tensor:
        """Add weight decay at the current parameters to a gradient, unless adamw applies its own."""
        if self.weight_decay and self.training.optimizer != "adamw":
            gradient.add_(self.weights, alpha=self.weight_decay)
        return gradient

    def descend(self, gradient: Tensor) -> None:
        """Clip the gradient and take an optimizer step."""
        self.steps_taken += 1
        at, decay, steps = self.weights, self.weight_decay, self.steps_taken
        if self.turns is None:
            descend(at, gradient, self.training, self.lr, decay, self.moments, steps)
            return
        first = steps <= self.turns.head_steps
        fixed, before = self.turns.private != first, at.clone()
        gradient = gradient.masked_fill(fixed, 0)
        # Each part has moments of its own steps alone.
        steps -= 0 if first else self.turns.head_steps
        descend(at, gradient, self.training, self.lr, decay, self.moments, steps)
        # Momentum and decoupled weight decay would move them.
        at.copy_(torch.where(fixed, before, at))

    def freeze(self, name: str, weights: Weights, features: bool = False) -> None:
        """Add a frozen network; `frozen` returns its outputs."""
        network = Frozen(weights, features)
        if not self.context.data.augmented:
            # Un-augmented inputs never change, so one pass serves all epochs.
            rows = torch.split(torch.arange(self.size), 500)
            network.outputs = torch.cat([self._outputs(network, self.data(part)[0]) for part in rows])
        self.networks[name] = network

    def frozen(self, name: str, batch: Batch) -> Tensor:
        """Return a frozen network's logits for a batch, or its features if frozen with features=True."""
        network = self.networks[name]
        return self._outputs(network, batch.x) if network.outputs is None else network.outputs[batch.index]

    def _outputs(self, network: Frozen, x: Input) -> Tensor:
        self.forwards += len(x)
        at, buffers = network.weights.parameters, network.weights.float_buffers
        with self.model.evaluating(), torch.no_grad():
            if network.features:
                return self.model.features_at(at, x, buffers)[0]
            return self.model.forward_at(at, x, buffers)

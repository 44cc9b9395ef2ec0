"""Training at the server: distillation into the global model, fine-tuning, central training.

The server trains in the process that runs the rounds, on one thread, with random numbers from (seed,
purpose, round), so the result is the same whichever engine trained the clients. Losses are the task's plain
loss on labels (cross-entropy) and divergences from teachers, never the loss that clients minimize.
"""

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from eunoe.config.options import Augment, Training
from eunoe.core.batches import plan_batches
from eunoe.core.fields import Input
from eunoe.core.flat_model import FlatModel, Weights
from eunoe.core.optimizer import descend
from eunoe.core.rng import generator, global_stream, torch_generator
from eunoe.data.federation import Federation, SampleSet
from eunoe.data.transforms import augment_batch
from eunoe.errors import InputError

# Logits of some samples and these samples' positions in what is trained on -> a loss for each of them.
PositionLoss = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Pool:
    """Samples that the server trains on: rows of a source and the client that owns each (or -1), if any."""

    federation: Federation
    source: SampleSet
    rows: Tensor
    owners: Tensor | None = None

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def labels(self) -> Tensor:
        return self.federation.samples(self.source).y[self.rows]

    def inputs(self, positions: Tensor) -> Input:
        """Model inputs of the samples at these positions."""
        federation, rows = self.federation, self.rows[positions]
        if federation.shift is None or self.owners is None:
            return federation.inputs(self.source, rows)
        seen_by = [None if owner < 0 else owner for owner in self.owners[positions].tolist()]
        each = zip(torch.split(rows, 1), seen_by, strict=True)
        seen = [federation.inputs(self.source, row, owner) for row, owner in each]
        # Only inputs of one tensor can have a feature shift.
        return torch.cat([x for x in seen if isinstance(x, Tensor)])


@dataclass(frozen=True)
class SoftTargets:
    """Soft targets of each sample, summed over the teachers i with their weights a_i per class c.

    sum_i sum_c a_i[c] p_i[c] log(p_i[c] / q[c]) needs of the teachers only the sums of a_i p_i (`mass`,
    one number per class) and of a_i p_i log p_i (`entropy`), however many teachers there are.
    """

    mass: Tensor
    entropy: Tensor
    temperature: float

    @classmethod
    def of(cls, outputs: Iterable[Tensor], weights: Tensor, temperature: float = 1.0) -> "SoftTargets":
        """From the logits of each teacher on the same samples and its weight for each class."""
        mass = entropy = torch.zeros((), dtype=torch.float64)
        dtype = weights.dtype
        for logits, weight in zip(outputs, weights, strict=True):
            dtype = logits.dtype
            logs = F.log_softmax(logits.double() / temperature, 1)
            part = weight.double() * logs.exp()
            mass, entropy = mass + part, entropy + (part * logs).sum(1)
        return cls(mass.to(dtype), entropy.to(dtype), temperature)

    def divergence(self, logits: Tensor, positions: Tensor | slice = slice(None)) -> Tensor:
        """Return the weighted divergence of a student's logits from the teachers, for each sample."""
        logs = F.log_softmax(logits / self.temperature, 1)
        return self.entropy[positions] - (self.mass[positions] * logs).sum(1)


@dataclass(frozen=True)
class Stopping:
    """Early stopping: when training ends before its last step; the best model is kept."""

    # From logits on the public validation set to a number, higher for a better model.
    judge: Callable[[Tensor], float]
    # Evaluations without a better model after which training ends.
    patience: int
    # Steps between evaluations; by default an epoch.
    every: int | None = None
    # Whether the model before the first step is a candidate too.
    start_counts: bool = False


@dataclass(frozen=True)
class Trained:
    """A model that the server has trained, and what it adds to the round's record."""

    weights: Weights
    record: dict[str, Any]


@dataclass
class ServerTrainer:
    """Trains models in the main process, on the public set or on all samples."""

    federation: Federation
    model: FlatModel
    seed: int
    augment: Augment = field(default_factory=Augment)
    chunk: int = 500
    # Samples that went through the network since the last training.
    _forwards: int = 0

    def public(self, part: Literal["train", "validation"]) -> Pool:
        """Return the samples of the public set to train or to validate on."""
        rows = self.federation.public_train if part == "train" else self.federation.public_validation
        if rows is None:
            raise InputError("there is no public set; set public.share above 0")
        return Pool(self.federation, "public", torch.from_numpy(rows))

    def everything(self) -> Pool:
        """Return all that the clients train on and, where it was taken from the same data, the public set."""
        federation = self.federation
        rows, owners = (torch.from_numpy(array) for array in federation.pooled("train"))
        if federation.public is federation.data.train and federation.public_train is not None:
            public = torch.from_numpy(federation.public_train)
            rows = torch.cat([rows, public])
            owners = torch.cat([owners, torch.full_like(public, -1)])
        return Pool(federation, "clients", rows, owners)

    def outputs(self, weights: Weights, pool: Pool) -> Tensor:
        """Return a model's logits on un-augmented samples, in evaluation mode; on the CPU."""
        self.model.load(weights)
        return self._outputs(pool)

    def accuracy(self, pool: Pool) -> Callable[[Tensor], float]:
        """Accuracy (the mean score of the task) as a function of a model's logits on these samples."""
        labels, task = pool.labels, self.federation.task
        return lambda logits: float(task.scores(logits, labels).double().mean())

    def plain_loss(self, pool: Pool) -> PositionLoss:
        """Return the plain loss on the labels of these samples: cross-entropy, or that of another task."""
        labels, task = pool.labels, self.federation.task
        return lambda logits, positions: task.losses(logits, labels[positions])

    def train(
        self,
        start: Weights,
        loss: PositionLoss,
        pool: Pool,
        options: Training,
        round: int,
        *,
        stopping: Stopping | None = None,
        anneal: bool = False,
        augmented: bool = False,
        freeze_statistics: bool = False,
        moments: dict[str, Tensor] | None = None,
        steps_taken: int = 0,
    ) -> Trained:
        """Train a model from `start` by `options`; with a stopping rule, the best model is returned.

        `anneal` is a cosine learning rate schedule down to zero; `freeze_statistics` keeps the running
        statistics of batch normalization; `moments` and `steps_taken` continue an optimizer.
        """
        model, moments = self.model, {} if moments is None else moments
        decay = options.weight_decay if options.optimizer != "adamw" else 0.0
        # For the model's dropout.
        with global_stream(model.device, self.seed, "server model", round):
            rng = torch_generator(self.seed, "server augmentation", round)
            order_rng = generator(self.seed, "server batches", round)
            batches = plan_batches(len(pool), options, order_rng, model.has_batch_norm)
            model.load(start)
            moments |= {name: moment.to(model.device) for name, moment in moments.items()}
            best = stopping and _BestModel(self, stopping, len(batches), options.epoch_range[0])
            self._training_mode(freeze_statistics)
            backwards, steps = 0, 0
            for steps, order in enumerate(batches, 1):
                positions = torch.from_numpy(order)
                x = pool.inputs(positions)
                x = augment_batch(x, self.augment, rng, self.federation.preprocess.black) if augmented else x
                model.gradient.zero_()
                # The loss is computed on the CPU, where the server's vectors are, on any device.
                logits = model.forward(x.to(model.device)).cpu()
                loss(logits, positions).mean().backward()  # type: ignore[no-untyped-call]
                backwards += len(order)
                if decay:
                    model.gradient.add_(model.parameters, alpha=decay)
                done = (steps - 1) / len(batches) if anneal else 0.0
                lr = options.lr * (0.5 + 0.5 * math.cos(math.pi * done))
                step = steps_taken + steps
                descend(model.parameters, model.gradient, options, lr, options.weight_decay, moments, step)
                if best and (steps % best.every == 0 or steps == len(batches)):
                    if best.enough(steps):
                        break
                    self._training_mode(freeze_statistics)
        record = {"steps": steps, "forwards": self._forwards + backwards, "backwards": backwards}
        self._forwards = 0
        moments |= {name: moment.cpu() for name, moment in moments.items()}
        weights = (best and best.weights) or model.weights.copy()
        return Trained(weights.to("cpu"), record | (best.record if best else {}))

    def _training_mode(self, freeze_statistics: bool) -> None:
        self.model.module.train()
        if freeze_statistics:
            for module in self.model.module.modules():
                if isinstance(module, nn.modules.batchnorm._BatchNorm):
                    module.eval()

    def _outputs(self, pool: Pool) -> Tensor:
        self._forwards += len(pool)
        parts = torch.split(torch.arange(len(pool)), self.chunk)
        self.model.module.eval()
        with torch.no_grad():
            return torch.cat([self.model.forward(pool.inputs(p).to(self.model.device)).cpu() for p in parts])


class _BestModel:
    """Evaluates a model in training from time to time and keeps the best."""

    def __init__(self, trainer: ServerTrainer, stopping: Stopping, steps: int, epochs: int) -> None:
        self.trainer, self.stopping = trainer, stopping
        self.every = stopping.every or max(steps // epochs, 1)
        self.weights: Weights | None = None
        self.record: dict[str, Any] = {}
        self._score, self._worse = -math.inf, 0
        self._pool = trainer.public("validation")
        if stopping.start_counts:
            self.enough(0)

    def enough(self, step: int) -> bool:
        """Evaluate the model; whether training should stop here."""
        logits = self.trainer._outputs(self._pool)
        score = self.stopping.judge(logits) if bool(torch.isfinite(logits).all()) else -math.inf
        if score > self._score:
            self._score, self._worse = score, 0
            self.weights = self.trainer.model.weights.copy()
            self.record = {"best_step": step, "validation": score}
        else:
            self._worse += 1
        return self._worse >= self.stopping.patience


def reference_trainer(trainer: ServerTrainer | None, method: str) -> ServerTrainer:
    """Return the server's trainer; raise InputError without a reference set with training samples."""
    sets = {} if trainer is None else trainer.federation.references
    if trainer is None or not sets or not all(len(data.train) for data in sets.values()):
        raise InputError(f"{method} needs reference sets with a training part: set retain")
    return trainer


def public_trainer(
    trainer: ServerTrainer | None,
    method: str,
    *,
    labels: bool = False,
    validation: bool = True,
    batch: int = 0,
) -> ServerTrainer:
    """Return the server's trainer; raise InputError without the public set that a method needs.

    With a `batch`, it must be possible to train on batches of that size.
    """
    if trainer is None or trainer.federation.public is None:
        raise InputError(f"{method} needs a public set at the server: set public.share, for example to 0.025")
    pool = trainer.public("train")
    if not len(pool):
        raise InputError(f"{method} needs public training samples: raise public.share or public.count")
    if validation and not len(trainer.public("validation")):
        raise InputError(f"{method} needs public validation samples: set public.validation above 0")
    if labels and not trainer.federation.public_labeled:
        raise InputError(f"{method} needs public labels, which public.data lacks: set public.share instead")
    alone = min(batch, len(pool)) == 1
    if alone and not trainer.model.trains_on(pool.inputs(torch.zeros(1, dtype=torch.int64))):
        raise InputError(f"{method}: batch norm cannot train on one sample: use larger batches or GroupNorm")
    return trainer

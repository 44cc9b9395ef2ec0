"""One client's participation: batches, steps, what goes back up."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from eunoe.config.options import Training
from eunoe.core.flat_model import Weights
from eunoe.core.rng import generator, global_stream, torch_generator
from eunoe.methods.base import Vectors
from eunoe.methods.client_context import Batch, Local
from eunoe.methods.context import Setting
from eunoe.training.simulation import Job

# Numbers that are gathered at a time for the steps to come (16 MB).
_BLOCK = 4_000_000
# Why a client is left out from which the loss learns nothing; it names the setting and no client's labels.
SITS_OUT = "it sits out (training.unlearnable)"


@dataclass(frozen=True)
class Received:
    """What the server sends to every client of a round."""

    round: int
    weights: Weights
    shared: Vectors = field(default_factory=dict)

    def to(self, device: torch.device) -> "Received":
        """The same on the device that trains; no copy if it is there."""
        shared = {name: value.to(device) for name, value in self.shared.items()}
        return Received(self.round, self.weights.to(device), shared)


@dataclass
class Update:
    """What a client sends back, on the CPU. `loss_before` and `loss_after` are of its first batch."""

    client: int
    size: int
    weights: Weights
    uploads: Vectors
    steps: int = 0
    loss_before: float = float("nan")
    loss_after: float = float("nan")
    forwards: int = 0
    backwards: int = 0
    skipped: str | None = None


def plan_steps(
    size: int, training: Training, chance: np.random.Generator, at_least_two: bool = False
) -> tuple[np.ndarray, list[int]]:
    """The positions of all steps' samples in a client's data, one after the other, and each step's number.

    Epochs go through all samples in a new order each. `at_least_two` joins a last batch of a single
    sample to the one before, which batch normalisation needs.
    """
    batch = min(training.batch_size or size, size)
    least, most = training.epoch_range
    epochs = int(chance.integers(least, most + 1)) if most > least else least
    full, rest = divmod(size, batch)
    lengths = [batch] * full
    if rest == 1 and at_least_two and training.last_batch == "keep":
        lengths[-1] += 1
    elif rest and training.last_batch == "keep":
        lengths.append(rest)
    if training.steps:
        epochs = -(-training.steps // len(lengths))
    used = sum(lengths)
    orders = [chance.permutation(size)[:used] for _ in range(epochs)]
    lengths = (lengths * epochs)[: training.steps]
    return np.concatenate(orders)[: sum(lengths)], lengths


def samples_trained(size: int, steps: int, training: Training) -> int:
    """How many samples the planned steps of a client hold together."""
    batch = min(training.batch_size or size, size)
    used = size if training.last_batch == "keep" else size - size % batch
    least, most = training.epoch_range
    if training.steps is None and least == most:
        # Whether single samples were joined to the batch before makes no difference here.
        return least * used
    epochs, more = divmod(steps, -(-used // batch))
    return epochs * used + more * batch


def plan_batches(
    size: int, training: Training, chance: np.random.Generator, at_least_two: bool = False
) -> list[np.ndarray]:
    """The positions of each step's samples in a client's data."""
    order, lengths = plan_steps(size, training, chance, at_least_two)
    return np.split(order, np.cumsum(lengths)[:-1])


def begin_client(
    job: Job, client: int, received: Received, state: Mapping[str, Tensor]
) -> tuple[Local, list[np.ndarray]]:
    """A client that has received the model and is ready to train, and its batches."""
    setting = job.setting_in(received.round)
    batches = plan_batches(
        int(job.federation.sizes[client]),
        setting.training,
        generator(setting.seed, "batches", received.round, client),
        setting.has_batch_norm,
    )
    return make_local(job, setting, client, received, state, len(batches)), batches


def make_local(
    job: Job, setting: Setting, client: int, received: Received, state: Mapping[str, Tensor], steps: int
) -> Local:
    """A client that has received the model and will take so many steps."""
    federation, model, training = job.federation, job.model, setting.training
    rows = torch.from_numpy(federation.rows(client, "train"))
    counts, told = (c.to(model.dtype) for c in (federation.counts(client), job.loss_counts(client)))

    def data(index: Tensor) -> tuple[Tensor, Tensor]:
        chosen = rows[index]
        x = federation.inputs("clients", chosen, client=client)
        return x.to(model.device), federation.samples("clients").y[chosen].to(model.device)

    decays = training.unlearnable == "train" or job.loss.learns_from(told)
    return Local(
        model=model,
        setting=setting,
        client=client,
        size=len(rows),
        counts=counts.to(model.device),
        loss=job.loss,
        terms=job.loss.terms(told).to(model.device),
        start=received.weights,
        shared=received.shared,
        own=state
        or {
            name: torch.zeros(size, dtype=model.dtype, device=model.device)
            for name, size in job.method.client_state(setting).items()
        },
        steps=steps,
        lr=setting.lr,
        weight_decay=training.weight_decay if decays else 0.0,
        data=data,
        generator=torch_generator(setting.seed, "method", received.round, client),
    )


def train_client(
    job: Job, client: int, received: Received, state: Mapping[str, Tensor]
) -> tuple[Update, Vectors]:
    """Train one client from what it received; give its update and its new state."""
    setting, model, method = job.setting, job.model, job.method
    received = received.to(model.device)
    if setting.training.unlearnable == "skip" and not job.loss.learns_from(job.loss_counts(client)):
        return Update(client, 0, received.weights.to("cpu"), {}, skipped=SITS_OUT), {}
    # For a model's own dropout.
    with global_stream(model.device, setting.seed, "model", received.round, client):
        model.load(received.weights)
        model.module.train()
        local, batches = begin_client(job, client, received, state)
        method.begin(local)
        augmenting = torch_generator(setting.seed, "augmentation", received.round, client)
        first: Batch | None = None
        before = float("nan")
        for index, x, y in in_blocks(local, batches):
            batch = Batch(job.augmented(x, augmenting), y, index)
            method.step(local, batch)
            if first is None:
                first, before = (
                    batch,
                    float("nan") if local.last_loss is None else local.last_loss.mean().item(),
                )
        # Before `finish`, which may take back a part of what was learnt.
        after = float("nan") if first is None else loss_on(job, local, first)
        finished = method.finish(local)
    update = Update(
        client,
        local.size,
        model.weights.copy().to("cpu"),
        {name: value.detach().cpu() for name, value in finished.uploads.items()},
        len(batches),
        before,
        after,
        local.forwards,
        local.backwards,
    )
    return update, finished.state


def in_blocks(local: Local, batches: list[np.ndarray]) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Positions, inputs and labels of every batch, gathered for many at once."""
    sizes = [len(batch) for batch in batches]
    width = local.data(torch.zeros(1, dtype=torch.int64))[0].numel()
    most = max(1, _BLOCK // max(width * max(sizes, default=1), 1))
    for first in range(0, len(batches), most):
        cuts = sizes[first : first + most]
        index = torch.from_numpy(np.concatenate(batches[first : first + most]))
        x, y = local.data(index)
        yield from zip(torch.split(index, cuts), torch.split(x, cuts), torch.split(y, cuts), strict=True)


def loss_on(job: Job, local: Local, batch: Batch) -> float:
    """A client's mean loss on a batch as its first step saw it, leaving no trace in model or client."""
    floats, integers = job.model.floats.clone(), job.model.integers.clone()
    # A loss that changes by the step is the same one before and after.
    local = replace(local, taken=0, moments={})
    with torch.no_grad():
        value = job.method.loss(local, batch).mean().item()
    job.model.floats.copy_(floats)
    job.model.integers.copy_(integers)
    return value

"""One client's participation in a round: batches, steps, the update it sends."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from eunoe.core.batches import plan_batches
from eunoe.core.fields import Input, split
from eunoe.core.flat_model import Vectors, Weights
from eunoe.core.rng import generator, global_stream, torch_generator
from eunoe.data.federation import Federation
from eunoe.engines.compression import compressed, compressed_uploads, without_left
from eunoe.engines.recall import kept, recalled
from eunoe.engines.simulation import Simulation
from eunoe.methods.client_context import Batch, ClientContext
from eunoe.methods.context import RoundContext

# Numbers that are gathered at a time for the steps to come (16 MB).
_BLOCK = 4_000_000
# Reason for skipping a client from which the loss learns nothing; it names the option, not the labels.
SKIPPED = "it is skipped (training.single_class)"


@dataclass(frozen=True)
class Broadcast:
    """What the server sends to every client of a round."""

    round: int
    weights: Weights
    shared: Vectors = field(default_factory=dict)

    def to(self, device: torch.device) -> "Broadcast":
        """The same on the device that trains; no copy if it is there."""
        shared = {name: value.to(device) for name, value in self.shared.items()}
        return Broadcast(self.round, self.weights.to(device), shared)


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
    # The smaller forms of vectors that were compressed, by name: what a network would carry.
    packed: dict[str, Vectors] = field(default_factory=dict)


def without_vectors(update: Update) -> Update:
    """An update without its vectors, too large to keep for a round of a thousand clients; counters stay."""
    empty = torch.empty(0)
    update.weights, update.uploads = Weights(empty, empty, update.weights.int_buffers), {}
    return update


def begin_client(
    simulation: Simulation, client: int, broadcast: Broadcast, state: Mapping[str, Tensor]
) -> tuple[ClientContext, list[np.ndarray]]:
    """A client that has received the model and is ready to train, and its batches."""
    context = simulation.context_in(broadcast.round)
    batches = plan_batches(
        len(simulation.federation.trained_rows(client)),
        context.training,
        generator(context.seed, "batches", broadcast.round, client),
        context.has_batch_norm,
    )
    return make_client_context(simulation, context, client, broadcast, state, len(batches)), batches


def make_client_context(
    simulation: Simulation,
    context: RoundContext,
    client: int,
    broadcast: Broadcast,
    state: Mapping[str, Tensor],
    steps: int,
) -> ClientContext:
    """A client that has received the model and will take so many steps."""
    federation, model, training = simulation.federation, simulation.model, context.training
    rows = torch.from_numpy(federation.trained_rows(client))
    counts, loss_counts = (
        c.to(model.dtype) for c in (federation.counts(client), simulation.loss_counts(client))
    )

    def samples(chosen: Tensor) -> tuple[Input, Tensor]:
        x = federation.inputs("clients", chosen, client=client)
        return x.to(model.device), federation.samples("clients").y[chosen].to(model.device)

    decays = training.single_class == "train" or simulation.loss.learns_from(loss_counts)
    return ClientContext(
        model=model,
        context=context,
        id=client,
        size=len(rows),
        counts=counts.to(model.device),
        loss=simulation.loss,
        terms=simulation.loss.terms(loss_counts).to(model.device),
        start=broadcast.weights,
        shared=broadcast.shared,
        state=without_left(state)
        or {
            name: torch.zeros(size, dtype=model.dtype, device=model.device)
            for name, size in simulation.method.client_state(context).items()
        },
        steps=steps,
        lr=context.lr,
        weight_decay=training.weight_decay if decays else 0.0,
        data=lambda index: samples(rows[index]),
        validation=lambda: samples(torch.from_numpy(federation.rows(client, "validation"))),
        generator=torch_generator(context.seed, "method", broadcast.round, client),
    )


def train_client(
    simulation: Simulation, client: int, broadcast: Broadcast, state: Mapping[str, Tensor]
) -> tuple[Update, Vectors]:
    """Train one client from what it received; returns its update and its new state."""
    simulation = simulation.in_round(broadcast.round)
    context, model, method = simulation.context, simulation.model, simulation.method
    broadcast = broadcast.to(model.device)
    before_it, state = recalled(simulation, client, state)
    if context.training.single_class == "skip" and not simulation.loss.learns_from(
        simulation.loss_counts(client)
    ):
        return Update(client, 0, broadcast.weights.to("cpu"), {}, skipped=SKIPPED), {}
    # For the model's dropout.
    with global_stream(model.device, context.seed, "model", broadcast.round, client):
        model.load(broadcast.weights)
        model.module.train()
        client_context, batches = begin_client(simulation, client, broadcast, state)
        method.begin(client_context)
        augmenting = torch_generator(context.seed, "augmentation", broadcast.round, client)
        first: Batch | None = None
        before = float("nan")
        for index, x, y in in_blocks(client_context, batches, simulation.federation):
            batch = Batch(simulation.augmented(x, augmenting), y, index)
            method.step(client_context, batch)
            if first is None:
                first, before = (
                    batch,
                    float("nan")
                    if client_context.last_loss is None
                    else client_context.last_loss.mean().item(),
                )
        # Before `finish`, which may revert a part of what was learned.
        after = float("nan") if first is None else loss_on(simulation, client_context, first)
        finished = method.finish(client_context)
    update = Update(
        client,
        simulation.federation.size(client),
        model.weights.copy().to("cpu"),
        {name: value.detach().cpu() for name, value in finished.uploads.items()},
        len(batches),
        before,
        after,
        client_context.forwards,
        client_context.backwards,
    )
    return as_sent(simulation, update, broadcast, state, finished.state | kept(simulation, client, before_it))


def as_sent(
    simulation: Simulation,
    update: Update,
    broadcast: Broadcast,
    before: Mapping[str, Tensor],
    after: Vectors,
) -> tuple[Update, Vectors]:
    """A client's update as the server reads it, and all that the client keeps.

    `before` is its state at the start and `after` what its method keeps.
    """
    if simulation.compress is None or update.skipped is not None:
        return update, after
    context = simulation.context_in(broadcast.round)
    names = compressed_uploads(simulation.compress, simulation.method.uploads(context), context.parameters)
    rng = generator(context.seed, "compression", broadcast.round, update.client)
    start = broadcast.weights.parameters.cpu()
    sent = compressed(
        simulation.compress, update.weights.parameters, start, update.uploads, names, before, rng
    )
    weights = replace(update.weights, parameters=sent.parameters)
    return replace(update, weights=weights, uploads=sent.uploads, packed=sent.packed), {**after, **sent.left}


def in_blocks(
    client_context: ClientContext, batches: list[np.ndarray], federation: Federation
) -> Iterator[tuple[Tensor, Input, Tensor]]:
    """Positions, inputs and labels of every batch, gathered for many batches at once.

    Samples of varying length are gathered batch by batch, each padded to its own longest.
    """
    sizes = [len(batch) for batch in batches]
    most = max(1, _BLOCK // max(federation.form.numbers * max(sizes, default=1), 1))
    most = 1 if federation.form.ragged else most
    for first in range(0, len(batches), most):
        cuts = sizes[first : first + most]
        index = torch.from_numpy(np.concatenate(batches[first : first + most]))
        x, y = client_context.data(index)
        yield from zip(torch.split(index, cuts), split(x, cuts), torch.split(y, cuts), strict=True)


def loss_on(simulation: Simulation, client_context: ClientContext, batch: Batch) -> float:
    """A client's mean loss on its first batch, without changing the model or the client."""
    float_buffers, int_buffers = simulation.model.float_buffers.clone(), simulation.model.int_buffers.clone()
    # A loss that depends on the step is that of the first step, before and after.
    client_context = replace(client_context, steps_taken=0, moments={})
    with torch.no_grad():
        value = simulation.method.loss(client_context, batch).mean().item()
    simulation.model.float_buffers.copy_(float_buffers)
    simulation.model.int_buffers.copy_(int_buffers)
    return value

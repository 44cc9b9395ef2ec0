"""One client's participation in a round: batches, steps, the update it sends."""

from collections.abc import Iterator, Mapping
from copy import copy
from dataclasses import replace

import torch
from torch import Tensor

from eunoe.core.fields import Input, split
from eunoe.core.flat_model import Vectors
from eunoe.core.rng import generator, global_stream, torch_generator
from eunoe.data.checks import Integers
from eunoe.data.federation import Federation
from eunoe.engines.compression import compress, compressed_uploads
from eunoe.engines.simulation import ClientData, Simulation
from eunoe.engines.staleness import rebase_update, stale_broadcast
from eunoe.methods.base import Method
from eunoe.methods.context import Batch, ClientContext, Turns
from eunoe.server.updates import Broadcast, Update

# Numbers that are gathered at a time for the steps to come (16 MB).
_BLOCK = 4_000_000
# Reason for skipping a client from which the loss learns nothing; it names the option, not the labels.
SKIPPED = "it is skipped (training.single_class)"


def make_client_context(
    data: ClientData, broadcast: Broadcast, state: Mapping[str, Tensor], steps: int
) -> ClientContext:
    """Return a client that has received the model and will take so many steps."""
    simulation, client = data.simulation, data.client
    federation, model, context = simulation.federation, simulation.model, simulation.context
    rows, training = torch.from_numpy(data.rows), context.training
    counts, loss_counts = (c.to(model.dtype) for c in (data.counts, data.loss_counts))

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
        state={
            name: state[name] if name in state else torch.zeros(size, dtype=model.dtype, device=model.device)
            for name, size in simulation.method.client_state(context).items()
        },
        steps=steps,
        lr=context.lr,
        turns=_turns(simulation, steps),
        weight_decay=training.weight_decay if decays else 0.0,
        data=lambda index: samples(rows[index]),
        validation=lambda: samples(torch.from_numpy(federation.rows(client, "validation"))),
    )


def _turns(simulation: Simulation, steps: int) -> Turns | None:
    """Return in which steps the private part trains alone; the other steps train the shared part."""
    training, private = simulation.context.training, simulation.private
    if private is None or not training.head_epochs:
        return None
    mask = private.masks["parameters"].to(simulation.model.device)
    return Turns(steps * training.head_epochs // training.epoch_range[0], mask)


def receive(simulation: Simulation, client: int, sent: Broadcast, state: Mapping[str, Tensor]) -> Broadcast:
    """Return what a client trains from: perhaps an earlier broadcast, with its own private part."""
    received = stale_broadcast(simulation.staleness, simulation.context, client, sent)
    if simulation.private is None:
        return received
    return replace(received, weights=simulation.private.put(received.weights, state))


def train_client(
    simulation: Simulation, client: int, broadcast: Broadcast, state: Mapping[str, Tensor]
) -> tuple[Update, Vectors]:
    """Train one client in the simulation of a round; return its update and its new state."""
    context, model, method = simulation.context, simulation.model, simulation.method
    assert context.round == broadcast.round
    broadcast = broadcast.to(model.device)
    received = receive(simulation, client, broadcast, state)
    data = ClientData.load(simulation, client, state)
    if data.skipped:
        return Update(client, 0, broadcast.weights.to("cpu"), {}, skipped=SKIPPED), {}
    # For the model's dropout.
    with global_stream(model.device, context.seed, "model", context.round, client):
        model.load(received.weights)
        model.module.train()
        order, sizes = data.plan()
        client_context = make_client_context(data, received, state, len(sizes))
        method.begin(client_context)
        augmenting = None
        if simulation.augment.active:
            augmenting = torch_generator(context.seed, "augmentation", context.round, client)
        first: Batch | None = None
        before = float("nan")
        for index, x, y in gather_blocks(client_context, order, sizes, simulation.federation):
            batch = Batch(x if augmenting is None else simulation.augmented(x, augmenting), y, index)
            method.step(client_context, batch)
            if first is None:
                first = batch
                if client_context.last_loss is not None:
                    before = client_context.last_loss.mean().item()
        # Before `finish`, which may revert a part of what was learned.
        after = float("nan") if first is None else loss_on(simulation, client_context, first)
        finished = method.finish(client_context)
    update = Update(
        client,
        simulation.federation.size(client),
        model.weights.copy().to("cpu"),
        {name: value.detach().cpu() for name, value in finished.uploads.items()},
        len(sizes),
        before,
        after,
        client_context.forwards,
        client_context.backwards,
    )
    new = finished.state | data.new_memory()
    return finish_update(simulation, update, received, broadcast, state, new)


def finish_update(
    simulation: Simulation,
    update: Update,
    received: Broadcast,
    sent: Broadcast,
    before: Mapping[str, Tensor],
    after: Vectors,
) -> tuple[Update, Vectors]:
    """Return a client's update as the server reads it, and the client's new state.

    `received` is what it trained from and `sent` the newest broadcast; `before` is its state at the start and
    `after` its new state without what was not sent.
    """
    compression, context = simulation.compression, simulation.context
    own, update = update.weights, rebase_update(simulation.staleness, context, update, received, sent)
    if (private := simulation.private) is not None:
        weights = private.hide(update.weights, sent.weights.to("cpu"))
        update = replace(update, weights=weights, uploads=private.clear(update.uploads))
        corrects = type(simulation.method).correct is not Method.correct
        after = {**(private.clear(after) if corrects else after), **private.take(own)}
    if compression is None:
        return update, after
    names = compressed_uploads(compression, simulation.method.uploads(context), context.model.parameters)
    rng = generator(context.seed, "compression", context.round, update.client)
    start = sent.weights.parameters.cpu()
    update, residuals = compress(compression, update, start, names, before, rng)
    return update, {**after, **residuals}


def gather_blocks(
    client_context: ClientContext, order: Integers, sizes: list[int], federation: Federation
) -> Iterator[tuple[Tensor, Input, Tensor]]:
    """Yield positions, inputs and labels of every batch, gathered for many batches at once.

    Samples of varying length are gathered batch by batch, each padded to its own longest.
    """
    form, start = federation.form, 0
    most = max(1, _BLOCK // max(form.numbers * max(sizes, default=1), 1))
    most = 1 if form.ragged else most
    for first in range(0, len(sizes), most):
        cuts = sizes[first : first + most]
        end = start + sum(cuts)
        index, start = torch.from_numpy(order[start:end]), end
        x, y = client_context.data(index)
        yield from zip(torch.split(index, cuts), split(x, cuts), torch.split(y, cuts), strict=True)


def loss_on(simulation: Simulation, client_context: ClientContext, batch: Batch) -> float:
    """Return a client's mean loss on its first batch, without changing the model or the client."""
    float_buffers, int_buffers = simulation.model.float_buffers.clone(), simulation.model.int_buffers.clone()
    # A loss that depends on the step is that of the first step, before and after.
    client_context = copy(client_context)
    client_context.steps_taken, client_context.moments = 0, {}
    with torch.no_grad():
        value = simulation.method.loss(client_context, batch).mean().item()
    simulation.model.float_buffers.copy_(float_buffers)
    simulation.model.int_buffers.copy_(int_buffers)
    return value

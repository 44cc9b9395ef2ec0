"""What an engine needs to train any client of a run and to evaluate any model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from eunoe.config.options import Attack, Augment, Averaging, Compression, Participation, Staleness
from eunoe.core.batches import max_steps, plan_steps
from eunoe.core.fields import Input
from eunoe.core.flat_model import FlatModel, Vectors
from eunoe.core.rng import generator
from eunoe.data.checks import Integers
from eunoe.data.federation import Federation, in_round
from eunoe.data.transforms import augment_batch
from eunoe.engines.memory import ClientMemory, MemoryOptions, load_memory
from eunoe.engines.private import PrivatePart
from eunoe.losses.base import Loss
from eunoe.methods.base import Method
from eunoe.methods.context import RoundContext
from eunoe.server.aggregator import Aggregator
from eunoe.server.secure_sum import SecureSums
from eunoe.server.update_checks import NormStats
from eunoe.server.updates import Broadcast, Limits


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """A run without its state: data, model, loss, method and context.

    `in_round` gives that of a round, which the loop, a worker process, a Ray actor and a Flower node each
    build once and pass on.
    """

    federation: Federation
    model: FlatModel
    loss: Loss
    method: Method
    context: RoundContext
    augment: Augment = field(default_factory=Augment)
    evaluation_chunk: int = 500
    averaging: Averaging | None = None
    attack: Attack | None = None
    compression: Compression | None = None
    staleness: Staleness | None = None
    private: PrivatePart | None = None
    # How many clients take part by round, where that changes.
    participation: Participation | None = None
    memory: MemoryOptions = field(default_factory=MemoryOptions)
    secure: SecureSums | None = None

    def in_round(self, round: int) -> "Simulation":
        """Return the simulation with the data, the loss and the context of a round."""
        context = replace(self.context, round=round, lr=self.context.training.lr_in(round))
        federation, loss, secure = in_round(self.federation, round), self.loss.in_round(round), self.secure
        if self.participation is not None:
            participants = self.participation.participants(round, context.data.clients)
            context = replace(context, participants=participants)
            secure = secure and secure.with_participants(context.participants)
        return replace(self, federation=federation, loss=loss, context=context, secure=secure)

    def augmented(self, x: Input, generator: torch.Generator) -> Input:
        """Augment a training batch; crops have black borders."""
        return augment_batch(x, self.augment, generator, self.federation.preprocess.black)

    def limits(self, client: int) -> Limits:
        """Return what a client's update is checked against."""
        size = self.federation.size(client)
        labels = len(self.federation.data.train.y) if self.memory.stale_counts else None
        return Limits(size, max_steps(size + self.memory.replay, self.context.training), labels)

    def aggregator(
        self, broadcast: Broadcast, past: Mapping[str, Sequence[NormStats]] | None = None
    ) -> Aggregator:
        """Return what checks and adds the updates of this round; `past` has the norms of the last rounds."""
        method, context = self.method, self.context
        return Aggregator(
            method.empty_aggregate(broadcast.weights, context),
            contribution=method.contribution,
            explained_norms=lambda norm, steps: method.explained_norms(
                norm, steps, broadcast.shared, context
            ),
            past=past,
            limits=self.limits,
            variances=self.model.variances,
        )


@dataclass(frozen=True)
class ClientData:
    """What a client trains on in a round: its rows and label counts, with what it remembers."""

    simulation: Simulation
    client: int
    memory: ClientMemory = field(default_factory=ClientMemory)

    @classmethod
    def load(cls, simulation: Simulation, client: int, state: Mapping[str, Tensor]) -> "ClientData":
        """Read what a client remembers from its state."""
        memory = load_memory(state, simulation.memory, simulation.federation.classes)
        return cls(simulation, client, memory)

    @cached_property
    def replayed(self) -> Integers:
        """Rows of earlier rounds that the client trains on beside those it has now."""
        if self.memory.replay is None:
            return np.empty(0, np.int64)
        rows = self.memory.replay.rows
        return rows[~np.isin(rows, self.simulation.federation.rows(self.client))]

    @cached_property
    def rows(self) -> Integers:
        """All rows that the client trains on."""
        rows = self.simulation.federation.rows(self.client)
        return np.concatenate([rows, self.replayed]) if len(self.replayed) else rows

    def plan(self) -> tuple[Integers, list[int]]:
        """Draw the positions of all steps' samples in the rows, and the sizes of the batches."""
        context = self.simulation.context
        rng = generator(context.seed, "batches", context.round, self.client)
        return plan_steps(len(self.rows), context.training, rng, context.model.has_batch_norm)

    @cached_property
    def _counts_now(self) -> Tensor:
        return self.simulation.federation.counts(self.client)

    @property
    def counts(self) -> Tensor:
        """Label counts for the method."""
        now, history = self._counts_now, self.memory.history
        return now if history is None else history.known(now)

    @cached_property
    def loss_counts(self) -> Tensor:
        """Label counts for the loss, replayed samples included."""
        federation, label_counts = self.simulation.federation, self.simulation.context.training.label_counts
        counts = self.counts
        if self.memory.replay is not None:
            counts = counts + federation.counts_of(self.replayed)
        if label_counts == "seen" and self.memory.history is not None:
            counts = torch.maximum(counts, self.memory.history.seen(self._counts_now))
        if label_counts == "train_and_validation":
            counts = counts + federation.counts(self.client, "validation")
        return counts

    @property
    def skipped(self) -> bool:
        """Whether the client does not train since its loss learns nothing from its labels."""
        skips = self.simulation.context.training.single_class == "skip"
        return skips and not self.simulation.loss.learns_from(self.loss_counts)

    def new_memory(self) -> Vectors:
        """Return what the client remembers after this round, as part of its state."""
        federation, context, state = self.simulation.federation, self.simulation.context, Vectors()
        if self.memory.replay is not None:
            rng = generator(context.seed, "replay", context.round, self.client)
            labels = federation.data.train.y.numpy()
            state |= self.memory.replay.after(federation.rows(self.client), labels, rng).state()
        if self.memory.history is not None:
            state |= self.memory.history.after(self._counts_now).state()
        return state

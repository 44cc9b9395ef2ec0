"""One client of a cohort as a method sees it inside `torch.func.vmap`, and what is done with it there.

What differs between clients goes in as tensors with a first dimension of clients, what is the same for
all as it is; in between, a method sees single vectors, as it does when a client trains alone.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import torch
from torch import Tensor
from torch.func import grad_and_value

from eunoe.core.flat_model import Vectors, Weights
from eunoe.methods.client_context import Batch, ClientContext, Frozen
from eunoe.methods.context import RoundContext
from eunoe.training.client import Broadcast
from eunoe.training.simulation import Simulation


class Watched(RoundContext):
    """A setting that notes whether it or its client is asked for what changes by the round or the step."""

    noticed: set[str]

    @classmethod
    def like(cls, context: RoundContext) -> "Watched":
        watched = cls(**{entry.name: getattr(context, entry.name) for entry in fields(context)})
        object.__setattr__(watched, "noticed", set())
        return watched

    def __getattribute__(self, name: str) -> Any:
        if name in ("lr", "round"):
            self.noticed.add(name)
        return super().__getattribute__(name)


@dataclass
class Inside(ClientContext):
    """A client inside vmap: its weights are one row of the cohort's, its losses are averaged by mask."""

    at: Tensor = field(default_factory=lambda: torch.empty(0))
    # The model's buffers, if it has any.
    float_buffers: Tensor | None = None
    int_buffers: Tensor | None = None

    def __getattribute__(self, name: str) -> Any:
        # A recorded step must not remember them.
        if name in ("lr", "steps_taken") and isinstance(self.context, Watched):
            self.context.noticed.add(name)
        return super().__getattribute__(name)

    @property
    def weights(self) -> Tensor:
        return self.at

    def forward(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        self.forwards += len(x)
        return self.model.forward_at(self.at if at is None else at, x, self.float_buffers, self.int_buffers)

    def features(self, x: Tensor, at: Tensor | None = None) -> tuple[Tensor, Tensor]:
        self.forwards += len(x)
        return self.model.features_at(self.at if at is None else at, x, self.float_buffers, self.int_buffers)

    def gradient(self, loss: Callable[[], Tensor], batch: Batch) -> Tensor:
        here = self.at

        def loss_at(point: Tensor) -> Tensor:
            self.at = point
            return loss()

        gradient = self.gradient_at(here, loss_at, batch)
        self.at = here
        return self.decayed(gradient)

    def decayed(self, gradient: Tensor) -> Tensor:
        # It is a tensor where it differs between clients.
        decays = isinstance(self.weight_decay, Tensor) or self.weight_decay
        return (
            gradient + self.weight_decay * self.at
            if decays and self.training.optimizer != "adamw"
            else gradient
        )

    def gradient_at(self, at: Tensor, loss: Callable[[Tensor], Tensor], batch: Batch) -> Tensor:
        self.backwards += len(batch.y)
        outside = self.float_buffers, self.int_buffers

        # Buffers are arguments, since only arguments may be written to inside.
        def mean_at(point: Tensor, float_buffers: Tensor | None, int_buffers: Tensor | None) -> Tensor:
            self.float_buffers, self.int_buffers = float_buffers, int_buffers
            return masked_mean(loss(point), batch.mask)

        gradient: Tensor
        gradient, self.last_loss = grad_and_value(mean_at)(at, *outside)
        self.float_buffers, self.int_buffers = outside
        return gradient


def masked_mean(losses: Tensor, mask: Tensor | None) -> Tensor:
    """The mean over the real samples of a batch."""
    return losses.mean() if mask is None else torch.where(mask, losses, 0).sum() / mask.sum()


@dataclass(frozen=True)
class Stage:
    """The vectors that a cohort's steps look at: one row per client, or the same for all."""

    rows: Vectors
    common: Vectors
    # For each frozen network, whether it is asked for features.
    networks: Mapping[str, bool]

    @classmethod
    def of(
        cls, broadcast: Broadcast, rows: Vectors, client_contexts: Sequence[ClientContext], longest: int
    ) -> "Stage":
        """From what the server sent, and from what each client prepared if it did, padded to the longest."""
        start = broadcast.weights
        common = {"start parameters": start.parameters, "start float_buffers": start.float_buffers}
        common |= {f"shared {name}": value for name, value in broadcast.shared.items()}
        first = client_contexts[0] if client_contexts else None
        stage = cls(rows, common, {name: n.features for name, n in first.networks.items()} if first else {})
        if first:
            stage._put("state", [client_context.state for client_context in client_contexts])
            stage._put("cache", [client_context.cache for client_context in client_contexts])
            stage._put("by sample", [client_context.rows for client_context in client_contexts], longest)
            for name in stage.networks:
                asked = [client_context.networks[name] for client_context in client_contexts]
                outputs = [{} if n.outputs is None else {"outputs": n.outputs} for n in asked]
                stage._put(f"network {name}", outputs, longest)
                lanes = [
                    {"parameters": n.weights.parameters, "float_buffers": n.weights.float_buffers}
                    for n in asked
                ]
                stage._put(
                    f"network {name}", [{} if o else lane for o, lane in zip(outputs, lanes, strict=True)]
                )
        return stage

    def first(self, clients: int) -> Vectors:
        """The vectors for the first clients only, with those for all."""
        return {**{name: value[:clients] for name, value in self.rows.items()}, **self.common}

    def dimensions(self) -> tuple[int | None, ...]:
        """Which dimension of each vector is that of the clients."""
        return (*(0 for _ in self.rows), *(None for _ in self.common))

    def _put(self, kind: str, vectors: Sequence[Mapping[str, Tensor]], length: int = 0) -> None:
        for name in vectors[0]:
            values = [own[name] for own in vectors]
            if len(values) > 1 and all(value is values[0] for value in values):
                self.common[f"{kind} {name}"] = values[0]
            elif length:
                padded = values[0].new_zeros(len(values), length, *values[0].shape[1:])
                for row, value in zip(padded, values, strict=True):
                    row[: len(value)] = value
                self.rows[f"{kind} {name}"] = padded
            else:
                self.rows[f"{kind} {name}"] = torch.stack(values)


def local_inside(
    simulation: Simulation, context: RoundContext, stage: Stage, weights: Tensor, named: Vectors
) -> Inside:
    """A client inside vmap from its vectors."""

    def parts(kind: str) -> Vectors:
        return {name[len(kind) + 1 :]: value for name, value in named.items() if name.startswith(f"{kind} ")}

    def network(name: str, features: bool) -> Frozen:
        found, empty = parts(f"network {name}"), torch.empty(0)
        lanes = Weights(found.get("parameters", empty), found.get("float_buffers", empty), empty)
        return Frozen(lanes, features, found.get("outputs"))

    empty = torch.empty(0)
    numbers: Any = {name: named[name] for name in ("id", "size", "steps")}
    decay: Any = named.get("weight decay", context.training.weight_decay)
    return Inside(
        model=simulation.model,
        context=context,
        counts=named["counts"],
        loss=simulation.loss,
        terms=named["terms"],
        start=Weights(named["start parameters"], named["start float_buffers"], empty),
        shared=parts("shared"),
        state=parts("state"),
        lr=vars(context)["lr"],
        weight_decay=decay,
        data=_no_data,
        generator=torch.default_generator,
        cache=parts("cache"),
        rows=parts("by sample"),
        networks={name: network(name, features) for name, features in stage.networks.items()},
        at=weights,
        float_buffers=named.get("float_buffers"),
        int_buffers=named.get("int_buffers"),
        **numbers,
    )


def _no_data(index: Tensor) -> tuple[Tensor, Tensor]:
    raise RuntimeError("a step has its batch only, not all of the client's data")

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

from eunoe.core.flat_model import Weights
from eunoe.methods.base import Vectors
from eunoe.methods.client_context import Batch, Frozen, Local
from eunoe.methods.context import Setting
from eunoe.training.client import Received
from eunoe.training.simulation import Job


class Watched(Setting):
    """A setting that notes whether it or its client is asked for what changes by the round or the step."""

    noticed: set[str]

    @classmethod
    def like(cls, setting: Setting) -> "Watched":
        watched = cls(**{entry.name: getattr(setting, entry.name) for entry in fields(setting)})
        object.__setattr__(watched, "noticed", set())
        return watched

    def __getattribute__(self, name: str) -> Any:
        if name in ("lr", "round"):
            self.noticed.add(name)
        return super().__getattribute__(name)


@dataclass
class Inside(Local):
    """A client inside vmap: its weights are one row of the cohort's, its losses are averaged by mask."""

    at: Tensor = field(default_factory=lambda: torch.empty(0))
    # The model's buffers, if it has any.
    floats: Tensor | None = None
    integers: Tensor | None = None

    def __getattribute__(self, name: str) -> Any:
        # A recorded step must not remember them.
        if name in ("lr", "taken") and isinstance(self.setting, Watched):
            self.setting.noticed.add(name)
        return super().__getattribute__(name)

    @property
    def weights(self) -> Tensor:
        return self.at

    def forward(self, x: Tensor, at: Tensor | None = None) -> Tensor:
        self.forwards += len(x)
        return self.model.forward_at(self.at if at is None else at, x, self.floats, self.integers)

    def features(self, x: Tensor, at: Tensor | None = None) -> tuple[Tensor, Tensor]:
        self.forwards += len(x)
        return self.model.features_at(self.at if at is None else at, x, self.floats, self.integers)

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
            if decays and self.training.optimiser != "adamw"
            else gradient
        )

    def gradient_at(self, at: Tensor, loss: Callable[[Tensor], Tensor], batch: Batch) -> Tensor:
        self.backwards += len(batch.y)
        outside = self.floats, self.integers

        # Buffers are arguments, since only arguments may be written to inside.
        def mean_at(point: Tensor, floats: Tensor | None, integers: Tensor | None) -> Tensor:
            self.floats, self.integers = floats, integers
            return masked_mean(loss(point), batch.mask)

        gradient: Tensor
        gradient, self.last_loss = grad_and_value(mean_at)(at, *outside)
        self.floats, self.integers = outside
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
    def of(cls, received: Received, rows: Vectors, locals: Sequence[Local], longest: int) -> "Stage":
        """From what the server sent, and from what each client prepared if it did, padded to the longest."""
        start = received.weights
        common = {"start parameters": start.parameters, "start floats": start.floats}
        common |= {f"shared {name}": value for name, value in received.shared.items()}
        first = locals[0] if locals else None
        stage = cls(rows, common, {name: n.features for name, n in first.networks.items()} if first else {})
        if first:
            stage._put("own", [local.own for local in locals])
            stage._put("cache", [local.cache for local in locals])
            stage._put("by sample", [local.rows for local in locals], longest)
            for name in stage.networks:
                asked = [local.networks[name] for local in locals]
                outputs = [{} if n.outputs is None else {"outputs": n.outputs} for n in asked]
                stage._put(f"network {name}", outputs, longest)
                lanes = [{"parameters": n.weights.parameters, "floats": n.weights.floats} for n in asked]
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


def local_inside(job: Job, setting: Setting, stage: Stage, weights: Tensor, named: Vectors) -> Inside:
    """A client inside vmap from its vectors."""

    def parts(kind: str) -> Vectors:
        return {name[len(kind) + 1 :]: value for name, value in named.items() if name.startswith(f"{kind} ")}

    def network(name: str, features: bool) -> Frozen:
        found, empty = parts(f"network {name}"), torch.empty(0)
        lanes = Weights(found.get("parameters", empty), found.get("floats", empty), empty)
        return Frozen(lanes, features, found.get("outputs"))

    empty = torch.empty(0)
    numbers: Any = {name: named[name] for name in ("client", "size", "steps")}
    decay: Any = named.get("weight decay", setting.training.weight_decay)
    return Inside(
        model=job.model,
        setting=setting,
        counts=named["counts"],
        loss=job.loss,
        terms=named["terms"],
        start=Weights(named["start parameters"], named["start floats"], empty),
        shared=parts("shared"),
        own=parts("own"),
        lr=vars(setting)["lr"],
        weight_decay=decay,
        data=_no_data,
        generator=torch.default_generator,
        cache=parts("cache"),
        rows=parts("by sample"),
        networks={name: network(name, features) for name, features in stage.networks.items()},
        at=weights,
        floats=named.get("floats"),
        integers=named.get("integers"),
        **numbers,
    )


def _no_data(index: Tensor) -> tuple[Tensor, Tensor]:
    raise RuntimeError("a step has its batch only, not all of the client's data")

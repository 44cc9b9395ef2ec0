"""Which runs can train in lockstep, and how their clients train at once.

Runs of one structure may differ in seed, partition, rounds and any number that can be a tensor.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from eunoe.config.options import Options
from eunoe.config.schema import Config
from eunoe.core.flat_model import FlatModel
from eunoe.engines.simulation import Simulation
from eunoe.engines.vectorized.engine import declared_reason
from eunoe.engines.vectorized.stack import StackClient
from eunoe.engines.vectorized.stacks import Stacks, Trained, number_of
from eunoe.errors import NotVectorizable
from eunoe.simulation.running import PreparedRun

# Above this many parameters, or inputs of a convolution, one client after the other is as fast.
_PARAMETERS, _PIXELS = 100_000, 256
# Training options that each client of a stack has for itself.
_OWN = {"epochs", "steps", "lr", "lr_decay", "weight_decay"}


def lockstep_reason(config: Config, simulation: Simulation) -> str | None:
    """Return why runs of this configuration do not gain from lockstep; None if they do."""
    if config.track or config.stop.hours is not None:
        return "it is tracked, or limited in time"
    if simulation.federation.task.name == "language_model":
        return "its outputs are sequences"
    if not simulation.method.trains_clients or simulation.model.has_batch_norm:
        return "it has no local training, or batch normalization"
    convolves = any(isinstance(m, torch.nn.modules.conv._ConvNd) for m in simulation.model.module.modules())
    large = convolves and simulation.federation.form.numbers > _PIXELS
    if large or simulation.model.parameters.numel() > _PARAMETERS:
        return "its model is so large that clients train as fast by themselves"
    return declared_reason(simulation)


def structure(prepared: PreparedRun) -> tuple[Any, ...]:
    """Return a key that is equal for runs whose clients can train in one stack."""
    config, simulation = prepared.config, prepared.simulation
    federation, context, data = simulation.federation, simulation.context, simulation.federation.data
    sections = {
        "training": config.training.model_dump(mode="json", exclude=_OWN),
        **{key: getattr(config, key).model_dump(mode="json") for key in ("model", "augment", "engine")},
    }
    facts = replace(context.data, mean_size=0.0)
    return (
        id(data.train),
        id(prepared.objects.model),
        json.dumps(sections, sort_keys=True),
        *(_fixed(kind, getattr(simulation, kind)) for kind in ("method", "loss")),
        (data.mean, data.std, federation.shift is None, simulation.evaluation_chunk),
        repr((simulation.memory, context.participants, facts)),
        _frozen(simulation.model),
    )


def _numbers(kind: str, component: Options) -> list[str]:
    """Return the names of a component's numbers, which may differ between runs of one structure."""
    return [f"{kind}.{key}" for key in type(component).model_fields if type(getattr(component, key)) is float]


def _fixed(kind: str, component: Options) -> tuple[type, str]:
    """Return the type of a component and its other options."""
    numbers = {name.partition(".")[2] for name in _numbers(kind, component)}
    return type(component), repr({name: value for name, value in component if name not in numbers})


def _frozen(model: FlatModel) -> str:
    """Return a hash of what the module has besides its weights."""
    own = {*model.names, *model.float_names, *model.integer_names}
    digest = hashlib.sha256(f"{model.module}{model.names}{model.shapes}".encode())
    for name, value in (*model.module.named_parameters(), *model.module.named_buffers()):
        if name not in own:
            digest.update(value.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


class Group:
    """Runs of one structure; `varied` are the numbers in which they differ."""

    def __init__(self, simulations: Sequence[Simulation]) -> None:
        self.simulation = simulations[0]
        names = [*_numbers("method", self.simulation.method), *_numbers("loss", self.simulation.loss)]
        self.varied = [
            name
            for name in (*names, "training.weight_decay")
            if len({number_of(each, name) for each in simulations}) > 1
        ]
        # Numbers that cannot be tensors: runs train with those that have the same.
        self._fixed: list[str] = []
        self._stacks: dict[tuple[Any, ...], Stacks] = {}

    def train(self, members: Sequence[StackClient], most: int) -> list[Trained]:
        """Train clients in stacks of at most `most` clients."""
        try:
            return self._train(members, most)
        except NotVectorizable:
            fixed = [name for name in self.varied if not name.startswith("training.")]
            if self._fixed or not fixed:
                raise
            # A method that branches on its numbers, or needs them as Python numbers.
            self._fixed, self._stacks = fixed, {}
            return self._train(members, most)

    def _train(self, members: Sequence[StackClient], most: int) -> list[Trained]:
        by_value: dict[tuple[Any, ...], list[int]] = {}
        for k, member in enumerate(members):
            # Runs in different rounds may differ in the loss and in what the server sends.
            loss = repr(self.simulation.loss.in_round(member.context.round))
            numbers = (number_of(member.simulation, name) for name in self._fixed)
            by_value.setdefault((loss, *member.broadcast.shared, *numbers), []).append(k)
        trained: dict[int, Trained] = {}
        for values, chosen in by_value.items():
            varied = [name for name in self.varied if name not in self._fixed]
            stacks = self._stacks.setdefault(values, Stacks(members[chosen[0]].simulation, varied))
            for first in range(0, len(chosen), most):
                part = chosen[first : first + most]
                trained.update(zip(part, stacks.train([members[k] for k in part]), strict=True))
        return [trained[k] for k in range(len(members))]

"""The devices of an engine's workers: which there are, whether memory suffices, what is copied there.

A worker moves the model to its device once, and all samples too if the workers of that device find room for
them in half of its free memory; else a block of batches is copied at a time. The weights of a round are
copied once a round. What is copied is counted, and a round's timings show it.
"""

from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from eunoe.core.fields import leaves
from eunoe.core.flat_model import FlatModel, Weights
from eunoe.data.federation import Federation
from eunoe.data.samples import Samples
from eunoe.engines.simulation import Simulation
from eunoe.errors import InputError, first_line
from eunoe.server.updates import Broadcast
from eunoe.system.machine import memory

# What a worker holds besides models, at least: a forked process, and one that Ray starts.
FORKED, STARTED = 2**26, 2**28
# The weights that it trains, their gradient, and what it sends.
_MODELS = 3


def check_memory(workers: int, weights: Weights, besides: int) -> None:
    """Raise InputError if the free memory, where it is known, does not hold so many workers."""
    model = sum(vector.numel() * vector.itemsize for vector in weights.vectors().values())
    each, (_, free) = besides + _MODELS * model, memory()
    if free and workers * each > free:
        raise InputError(
            f"{workers} workers need at least {workers * each / 1e9:.1f} GB of memory, and {free / 1e9:.1f} "
            f"GB are free: set engine.workers to {max(1, free // each)} or less"
        )


@dataclass
class Transfers:
    """What an engine copies to its workers and devices and back: copies and their bytes, by kind."""

    copies: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)

    def count(self, what: str, size: int) -> None:
        """Count a copy."""
        self.copies[what] += 1
        self.bytes[what] += size

    def add(self, other: "Transfers") -> None:
        """Add the counts of another process."""
        self.copies += other.copies
        self.bytes += other.bytes

    def take(self) -> "Transfers":
        """Return what was counted since the last call."""
        counted = Transfers(self.copies, self.bytes)
        self.copies, self.bytes = Counter(), Counter()
        return counted

    def record(self) -> dict[str, dict[str, int]]:
        """Return copies and bytes by kind, in alphabetical order."""
        return {key: {"copies": self.copies[key], "bytes": self.bytes[key]} for key in sorted(self.copies)}


def expand(pattern: str) -> list[str]:
    """Return the devices of a pattern such as "cuda:*", "cuda:0,cuda:2" or "cpu"; each must exist."""
    devices: list[str] = []
    for name in (part.strip() for part in pattern.split(",")):
        kind, _, index = name.partition(":")
        if kind == "cuda":
            # Counting does not initialize CUDA, which a process that is to fork must not do.
            there = torch.cuda.device_count()
            if not there:
                raise InputError(
                    f"engine.devices: {name!r} does not exist: torch sees no CUDA device; leave devices out"
                )
            if index and index != "*" and not (index.isdigit() and int(index) < there):
                raise InputError(
                    f"engine.devices: {name!r} does not exist; there are cuda:0 to cuda:{there - 1}"
                )
            numbers = range(there) if index == "*" else [int(index or 0)]
            devices += [f"cuda:{number}" for number in numbers]
        else:
            devices.append(usable_device(name, "engine.devices"))
    return devices


def usable_device(name: str, option: str) -> str:
    """Return the name of a torch device if it can be used on this machine."""
    try:
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"{option}: {name!r} cannot be used: {first_line(error)}") from None
    return name


def free_memory(device: torch.device) -> int | None:
    """Return the free bytes of a device; None if unknown."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else None


def _move_inputs(federation: Federation, device: torch.device) -> Federation:
    """Return the federation with all inputs on a device; labels and rows stay."""

    def move(samples: Samples) -> Samples:
        return Samples(samples.tensor.to(device), samples.y)

    data = replace(federation.data, train=move(federation.data.train), test=move(federation.data.test))
    public = None if federation.public is None else move(federation.public)
    moved = replace(federation, data=data, public=public)
    vars(moved)["preprocess"] = deepcopy(federation.preprocess).to(device)
    return moved


class WorkerDevice:
    """A worker's device: the simulation on it, and the simulation and weights of the round."""

    def __init__(
        self,
        simulation: Simulation,
        device: str,
        sharing: int = 1,
        free: Callable[[torch.device], int | None] = free_memory,
    ) -> None:
        """`sharing` workers share the device, each with a copy of its own."""
        self.device, self.transfers = torch.device(device), Transfers()
        self.simulation = self._in_round = simulation
        self._broadcast: tuple[int, Broadcast] | None = None
        if self.device == simulation.model.device:
            return
        model = simulation.model
        moved = FlatModel(deepcopy(model.module), model.dtype, device, model.precision)
        moved.has_features = model.has_features
        self.transfers.count("model", sum(v.numel() * v.itemsize for v in model.weights.vectors().values()))
        federation, room = simulation.federation, free(self.device)
        sources = [federation.data.train, federation.data.test]
        sources += [] if federation.public is None else [federation.public]
        size = sum(x.numel() * x.itemsize for samples in sources for x in leaves(samples.x))
        # Samples of varying length and of several fields stay where they are gathered.
        flat = all(isinstance(samples.x, Tensor) for samples in sources)
        if flat and (room is None or 2 * sharing * size <= room):
            federation = _move_inputs(federation, self.device)
            self.transfers.count("samples", size)
        self.simulation = self._in_round = replace(simulation, model=moved, federation=federation)

    def in_round(self, round: int) -> Simulation:
        """Return the simulation of a round, built when it is first asked for."""
        if self._in_round.context.round != round:
            self._in_round = self.simulation.in_round(round)
        return self._in_round

    def received(self, broadcast: Broadcast) -> Broadcast:
        """Return a round's broadcast on the device, copied when it is first asked for."""
        if self.device == broadcast.weights.parameters.device:
            return broadcast
        if self._broadcast is None or self._broadcast[0] != broadcast.round:
            vectors: list[Any] = [*broadcast.weights.vectors().values(), *broadcast.shared.values()]
            self.transfers.count("broadcast", sum(v.numel() * v.itemsize for v in vectors))
            self._broadcast = broadcast.round, broadcast.to(self.device)
        return self._broadcast[1]

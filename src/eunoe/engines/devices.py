"""The devices of an engine's workers: which there are, who is bound to which, and what is copied there.

A worker moves the model to its device once, and all samples too if the workers of that device find room for
them in half of its free memory; else a block of batches is copied at a time. The weights of a round are
copied once a round. What is copied is counted, and a round's timings show it.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from eunoe.core.fields import leaves
from eunoe.core.flat_model import FlatModel
from eunoe.data.federation import Federation
from eunoe.data.samples import Samples
from eunoe.engines.client import Broadcast
from eunoe.engines.simulation import Simulation
from eunoe.engines.transfers import Transfers
from eunoe.errors import InputError, first_line


def expand(pattern: str) -> list[str]:
    """The devices of a pattern such as "cuda:*", "cuda:0,cuda:2" or "cpu"; InputError if one is not there."""
    found: list[str] = []
    for name in (part.strip() for part in pattern.split(",")):
        kind, _, index = name.partition(":")
        if kind == "cuda":
            # Counting does not initialize CUDA, which a process that is to fork must not do.
            there = torch.cuda.device_count()
            if not there:
                raise InputError(
                    f"engine.devices: {name!r} is not there: torch sees no CUDA device; leave devices out"
                )
            numbers = list(range(there)) if index == "*" else [_number(name, index, there)]
            found += [f"cuda:{number}" for number in numbers]
        else:
            found.append(_usable(name))
    return found


def _number(name: str, index: str, there: int) -> int:
    if not index:
        return 0
    if not index.isdigit() or int(index) >= there:
        raise InputError(f"engine.devices: {name!r} is not there; there are cuda:0 to cuda:{there - 1}")
    return int(index)


def _usable(name: str) -> str:
    try:
        torch.zeros(1, device=name).cpu()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise InputError(f"engine.devices: {name!r} cannot be used: {first_line(error)}") from None
    return name


def bound(devices: Sequence[str], per_device: int) -> list[str]:
    """The device of each worker: every device has its first one before any has a second."""
    return [device for _ in range(per_device) for device in devices]


def free_memory(device: torch.device) -> int | None:
    """The free bytes of a device; None if it does not say."""
    return torch.cuda.mem_get_info(device)[0] if device.type == "cuda" else None


def _moved(federation: Federation, device: torch.device) -> Federation:
    """The federation with all inputs on a device; labels and rows stay."""

    def there(samples: Samples) -> Samples:
        return Samples(samples.tensor.to(device), samples.y)

    data = replace(federation.data, train=there(federation.data.train), test=there(federation.data.test))
    public = None if federation.public is None else there(federation.public)
    moved = replace(federation, data=data, public=public)
    vars(moved)["preprocess"] = deepcopy(federation.preprocess).to(device)
    return moved


class Place:
    """A worker's device: the simulation on it, and the weights of the round."""

    def __init__(
        self,
        simulation: Simulation,
        device: str,
        sharing: int = 1,
        free: Callable[[torch.device], int | None] = free_memory,
    ) -> None:
        """`sharing` workers share the device, each with a copy of its own."""
        self.device, self.transfers = torch.device(device), Transfers()
        self.simulation = simulation
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
            federation = _moved(federation, self.device)
            self.transfers.count("samples", size)
        self.simulation = replace(simulation, model=moved, federation=federation)

    def received(self, broadcast: Broadcast) -> Broadcast:
        """A round's broadcast on the device, copied when it is first asked for."""
        if self.device == broadcast.weights.parameters.device:
            return broadcast
        if self._broadcast is None or self._broadcast[0] != broadcast.round:
            vectors: list[Any] = [*broadcast.weights.vectors().values(), *broadcast.shared.values()]
            self.transfers.count("broadcast", sum(v.numel() * v.itemsize for v in vectors))
            self._broadcast = broadcast.round, broadcast.to(self.device)
        return self._broadcast[1]

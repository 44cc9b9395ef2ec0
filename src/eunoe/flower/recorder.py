"""Passes the models of a Flower strategy to the forgetting observer, and writes its run folder."""

import copy
import logging
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from eunoe.config.settings import to_toml
from eunoe.core.fields import call
from eunoe.errors import InputError
from eunoe.metrics.observer import Batches, Forgetting, first_input
from eunoe.store.line_file import LineFile
from eunoe.system.files import make_folder, write_text

Arrays = Mapping[str, np.ndarray[Any, Any]]
# A client's identifier in Flower, and its model.
Reply = tuple[Hashable, Arrays]
log = logging.getLogger("flwr")


class Recorder:
    """Pass models from Flower's records to the forgetting observer."""

    def __init__(self, model: nn.Module, data: Batches, name: str, folder: Path | None) -> None:
        self.model, self.average = copy.deepcopy(model).eval(), copy.deepcopy(model).eval()
        self.names = list(self.model.state_dict())
        self.forgetting = Forgetting(data, _count_classes(self.model, data), name=name)
        self.folder, self.hidden = folder, False
        self._numbers: dict[Hashable, int] = {}
        self._current: Arrays = {}
        self._written = 0
        if folder is not None:
            make_folder(folder)
            metrics = folder / "metrics.jsonl"
            # `eunoe watch` needs the file before the first round has ended.
            metrics.touch()
            if metrics.stat().st_size:
                raise InputError(f"{folder} already contains a run: pass a new folder")

    def write_config(self, decay: float | None) -> None:
        """Write what is known of the run's settings: its name, and the decay of the average."""
        if self.folder is not None:
            averaging = {} if decay is None else {"averaging": {"decay": decay}}
            write_text(self.folder / "config.toml", to_toml(self.forgetting.config | averaging))

    def hide(self, reason: str) -> None:
        """Evaluate only global models from now on."""
        if not self.hidden:
            log.warning(
                "eunoe measures round forgetting only, not local and aggregation forgetting: %s", reason
            )
        self.hidden = True

    def record_start(self, arrays: Arrays) -> None:
        if not same(arrays, self._current):
            self.forgetting.start(self._load(arrays))
            self._current = arrays

    def record_local(self, replies: list[Reply]) -> None:
        if len(replies) > 1 and all(same(arrays, replies[0][1]) for _, arrays in replies[1:]):
            self.hide("all clients' models are the same, as after secure aggregation")
        self._replied = bool(replies)
        for client, arrays in replies:
            # Node identifiers are random and too long for JavaScript's numbers.
            number = self._numbers.setdefault(client, len(self._numbers))
            if self.hidden:
                self.forgetting.hidden(number)
            else:
                self.forgetting.local(number, self._load(arrays))

    def record_aggregated(self, number: int, arrays: Arrays | None, average: Arrays | None) -> None:
        if arrays is None or not self._replied:
            self._current = arrays or self._current
            self.forgetting.start(self._load(self._current))
            return
        probes = len(self.forgetting.probes)
        averaged = None if average is None else self._load(average, self.average)
        self.forgetting.aggregated(self._load(arrays), number, averaged)
        self._current = arrays
        if self.folder is not None:
            # Rounds in which nothing was aggregated have a line too.
            lost = [{"schema": 1, "round": r, "clients": []} for r in range(self._written + 1, number)]
            LineFile(self.folder / "metrics.jsonl").append([*lost, *self.forgetting.metrics[-1:]])
            LineFile(self.folder / "probes.jsonl").append(self.forgetting.probes[probes:])
            self._written = number

    def _load(self, arrays: Arrays, model: nn.Module | None = None) -> nn.Module:
        """Load arrays into a model, matched by name or in the model's order."""
        model = model or self.model
        named = [name for name, _ in model.named_parameters()]
        order = {len(named): named, len(self.names): self.names}.get(len(arrays))
        if order is None:
            expected = f"not {len(self.names)} as in measure: pass the same model"
            raise InputError(f"the strategy's model has {len(arrays)} arrays, {expected}")
        order = list(arrays) if set(arrays) == set(order) else order
        state = model.state_dict()
        for name, array in zip(order, arrays.values(), strict=True):
            if state[name].shape != array.shape:
                expected = f"not {tuple(state[name].shape)} as in measure: pass the same model"
                raise InputError(f"{name} has shape {array.shape} in the strategy, {expected}")
            state[name].copy_(torch.as_tensor(array))
        return model


def same(arrays: Arrays, other: Arrays) -> bool:
    """Return whether two models are equal."""
    return arrays.keys() == other.keys() and all(np.array_equal(arrays[k], other[k]) for k in arrays)


def _count_classes(model: nn.Module, data: Batches) -> int:
    """Return the number of classes: the length of the model's output for one test sample."""
    # Merely iterating a DataLoader draws from the global generator.
    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        return int(call(model, first_input(data)[:1]).shape[-1])

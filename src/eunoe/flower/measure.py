"""Measure forgetting in an existing Flower project with one line around its strategy.

Example::

    strategy = measure(FedAdam(...), model, (test_x, test_y))
    strategy.start(grid, initial_arrays, num_rounds=50)
    print(strategy.forgetting.summary())

The model sent, every client's model and the global model are evaluated where they pass through the strategy's
own methods. Both of Flower's interfaces work: the one on messages (configure_train and aggregate_train) and
the older one (configure_fit and aggregate_fit).
"""

import copy
import functools
import inspect
import logging
from collections.abc import Callable, Hashable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from torch import nn

from eunoe.config.toml import to_toml
from eunoe.core.fields import as_input, call
from eunoe.errors import InputError
from eunoe.metrics.observer import Batches, Forgetting, is_pair
from eunoe.store.line_file import LineFile
from eunoe.system.files import make_folder, write_text

Arrays = Mapping[str, np.ndarray[Any, Any]]
# A client's identifier in Flower, and its model.
Reply = tuple[Hashable, Arrays]
Strategy = TypeVar("Strategy")
PRIVATE_CLASSES = ("DifferentialPrivacy", "DPFedAvg")
log = logging.getLogger("flwr")


def measure(
    strategy: Strategy,
    model: nn.Module,
    test_data: Batches,
    *,
    private: bool | None = None,
    folder: str | Path | None = None,
    name: str = "flower",
) -> Strategy:
    """Make a Flower strategy record round, local and aggregation forgetting as `strategy.forgetting`.

    Args:
        strategy: A strategy of either of Flower's interfaces; its methods are wrapped in place.
        model: Any instance of the model that is trained.
        test_data: (x, y) or a loader.
        private: Whether clients' models must stay private; then only round forgetting is measured, with a
            warning. By default Flower's differential privacy and secure aggregation are detected; noise that
            clients add cannot be detected here.
        folder: Where each round is also written, for `eunoe report` and `eunoe watch`.
        name: The name of the run.
    """
    api = _find_api(strategy)
    if hasattr(strategy, "forgetting"):
        raise InputError(f"measure was already called on this {type(strategy).__name__}: call it once")
    recorder = _Recorder(model, test_data, name, None if folder is None else Path(folder))
    reason = _detect_privacy(strategy) if private is None else ("private=True was passed" if private else "")
    if reason:
        recorder.hide(reason)
    configure, aggregate = getattr(strategy, api.configure), getattr(strategy, api.aggregate)

    @functools.wraps(configure)
    def configure_and_record(*args: Any, **kwargs: Any) -> Any:
        arguments, _ = _in_order(configure, args, kwargs)
        recorder.record_start(api.read_model(arguments[1]))
        return configure(*args, **kwargs)

    @functools.wraps(aggregate)
    def aggregate_and_record(*args: Any, **kwargs: Any) -> Any:
        arguments, names = _in_order(aggregate, args, kwargs)
        # An iterator would be exhausted by reading it, and aggregation empties the records it reads.
        arguments[1] = list(arguments[1])
        recorder.record_local(api.read_replies(arguments[1], recorder.names))
        unnamed = len(arguments) - len(names)
        result = aggregate(*arguments[:unnamed], **dict(zip(names, arguments[unnamed:], strict=True)))
        recorder.record_aggregated(arguments[0], None if result[0] is None else api.read_model(result[0]))
        return result

    # Patched on the object, since the strategy's own loop calls self.aggregate_train.
    setattr(strategy, api.configure, configure_and_record)
    setattr(strategy, api.aggregate, aggregate_and_record)
    strategy.forgetting = recorder.forgetting  # type: ignore[attr-defined]
    return strategy


def _in_order(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[list[Any], list[str]]:
    """Return a call's arguments in the order of the method's parameters, and the names of the last ones.

    Both interfaces pass the round number first and then the model or the replies, under different names.
    """
    call = inspect.signature(method).bind(*args, **kwargs)
    return [*call.args, *call.kwargs.values()], list(call.kwargs)


class _Api(NamedTuple):
    """One of Flower's two interfaces: the names of its methods and its representation of a model."""

    configure: str
    aggregate: str
    read_model: Callable[[Any], Arrays]
    read_replies: Callable[[Iterable[Any], Iterable[str]], list[Reply]]


def _find_api(strategy: object) -> _Api:
    if hasattr(strategy, "aggregate_train"):
        return _Api("configure_train", "aggregate_train", _read_record, _read_messages)
    if hasattr(strategy, "aggregate_fit"):
        return _Api("configure_fit", "aggregate_fit", _read_parameters, _read_results)
    name = type(strategy).__name__
    raise InputError(f"{name} is not a Flower strategy: it has no aggregate_train or aggregate_fit")


def _read_record(record: Any) -> Arrays:
    return {key: array.numpy() for key, array in record.items()}


def _read_messages(messages: Iterable[Any], names: Iterable[str]) -> list[Reply]:
    """Return the models in the replies; of several records in a reply, the one with the model's names."""
    replies: list[Reply] = []
    for message in messages:
        if not message.has_error():
            records = list(message.content.array_records.values())
            matching = [record for record in records if set(record) == set(names)] or records
            replies += [(message.metadata.src_node_id, _read_record(record)) for record in matching[:1]]
    return replies


def _read_parameters(parameters: Any) -> Arrays:
    from flwr.common import parameters_to_ndarrays

    return {str(position): array for position, array in enumerate(parameters_to_ndarrays(parameters))}


def _read_results(results: Iterable[Any], _: Iterable[str]) -> list[Reply]:
    return [(client.cid, _read_parameters(result.parameters)) for client, result in results]


def _detect_privacy(strategy: object) -> str:
    """Return the privacy wrapper around a strategy that forbids evaluating clients' models; empty if none."""
    while strategy is not None:
        for kind in type(strategy).__mro__:
            if kind.__name__.startswith(PRIVATE_CLASSES):
                return f"{kind.__name__} keeps clients private"
        strategy = getattr(strategy, "strategy", None)
    return ""


class _Recorder:
    """Pass models from Flower's records to the forgetting observer."""

    def __init__(self, model: nn.Module, data: Batches, name: str, folder: Path | None) -> None:
        self.model = copy.deepcopy(model).eval()
        self.names = list(self.model.state_dict())
        self.forgetting = Forgetting(data, _count_classes(self.model, data), name=name)
        self.folder, self.hidden = folder, False
        self._numbers: dict[Hashable, int] = {}
        self._current: Arrays = {}
        if folder is not None:
            make_folder(folder)
            metrics = folder / "metrics.jsonl"
            # `eunoe watch` needs the file before the first round has ended.
            metrics.touch()
            if metrics.stat().st_size:
                raise InputError(f"{folder} already contains a run: pass a new folder")
            write_text(folder / "config.toml", to_toml({"name": name}))

    def hide(self, reason: str) -> None:
        """Evaluate only global models from now on."""
        if not self.hidden:
            log.warning(
                "eunoe measures round forgetting only, not local and aggregation forgetting: %s", reason
            )
        self.hidden = True

    def record_start(self, arrays: Arrays) -> None:
        if not _same(arrays, self._current):
            self.forgetting.start(self._load(arrays))
            self._current = arrays

    def record_local(self, replies: list[Reply]) -> None:
        if len(replies) > 1 and all(_same(arrays, replies[0][1]) for _, arrays in replies[1:]):
            self.hide("all clients' models are the same, as after secure aggregation")
        self._replied = bool(replies)
        for client, arrays in replies:
            # Node identifiers are random and too long for JavaScript's numbers.
            number = self._numbers.setdefault(client, len(self._numbers))
            if self.hidden:
                self.forgetting.hidden(number)
            else:
                self.forgetting.local(number, self._load(arrays))

    def record_aggregated(self, number: int, arrays: Arrays | None) -> None:
        if arrays is None or not self._replied:
            self._current = arrays or self._current
            self.forgetting.start(self._load(self._current))
            return
        probes = len(self.forgetting.probes)
        self.forgetting.aggregated(self._load(arrays), number)
        self._current = arrays
        if self.folder is not None:
            LineFile(self.folder / "metrics.jsonl").append(self.forgetting.metrics[-1:])
            LineFile(self.folder / "probes.jsonl").append(self.forgetting.probes[probes:])

    def _load(self, arrays: Arrays) -> nn.Module:
        """Load arrays into the model, matched by name or in the model's order."""
        named = [name for name, _ in self.model.named_parameters()]
        order = {len(named): named, len(self.names): self.names}.get(len(arrays))
        if order is None:
            expected = f"not {len(self.names)} as in measure: pass the same model"
            raise InputError(f"the strategy's model has {len(arrays)} arrays, {expected}")
        order = list(arrays) if set(arrays) == set(order) else order
        state = self.model.state_dict()
        for name, array in zip(order, arrays.values(), strict=True):
            if state[name].shape != array.shape:
                expected = f"not {tuple(state[name].shape)} as in measure: pass the same model"
                raise InputError(f"{name} has shape {array.shape} in the strategy, {expected}")
            state[name].copy_(torch.as_tensor(array))
        return self.model


def _same(arrays: Arrays, other: Arrays) -> bool:
    return arrays.keys() == other.keys() and all(np.array_equal(arrays[k], other[k]) for k in arrays)


def _count_classes(model: nn.Module, data: Batches) -> int:
    """Return the number of classes: the length of the model's output for one test sample."""
    # Merely iterating a DataLoader draws from the global generator.
    with torch.inference_mode(), torch.random.fork_rng(devices=[]):
        x = data[0] if is_pair(data) else next(iter(data))[0]
        return int(call(model, as_input(x)[:1]).shape[-1])

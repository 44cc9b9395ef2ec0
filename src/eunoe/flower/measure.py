"""Measure forgetting and average models in an existing Flower project, with one line around its strategy.

Example::

    strategy = measure(average(FedAdam(...)), model, (test_x, test_y))
    strategy.start(grid, initial_arrays, num_rounds=50)
    print(strategy.forgetting.summary())

The model sent, every client's model and the global model are evaluated where they pass through the strategy's
own methods, of either interface: that on messages (configure_train and aggregate_train) or the older one
(configure_fit and aggregate_fit). `measure` and `average` share one wrapper, so their order does not matter.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import torch
from torch import nn

from eunoe.errors import InputError
from eunoe.flower.recorder import Arrays, Recorder, Reply, same
from eunoe.metrics.observer import Batches
from eunoe.server.averaging import TensorAverage

Strategy = TypeVar("Strategy")
PRIVATE_CLASSES = ("DifferentialPrivacy", "DPFedAvg")


def average(strategy: Strategy, decay: float = 0.9) -> Strategy:
    """Make a Flower strategy evaluate and return the average of its global models.

    Clients still train the newest model, so training and traffic stay the same. Wrap the outermost strategy.
    The newest model has the weight (1 - decay) / (1 - decay^t) after t rounds.

    Example::

        strategy = eunoe.flower.average(FedAvg(), decay=0.9)
        result = strategy.start(grid, initial_arrays, num_rounds=50)
        torch.save(result.arrays.to_torch_state_dict(), "average.pt")
    """
    wrapper = wrap(strategy)
    if wrapper.average is not None:
        raise InputError(f"average was already called on this {type(strategy).__name__}: call it once")
    wrapper.attach(average=TensorAverage(decay))
    return strategy


def measure(
    strategy: Strategy,
    model: nn.Module,
    test_data: Batches,
    *,
    private: bool | None = None,
    folder: str | Path | None = None,
    name: str | None = None,
) -> Strategy:
    """Make a Flower strategy record round, local and aggregation forgetting as `strategy.forgetting`.

    Args:
        strategy: A strategy of either of Flower's interfaces; its methods are wrapped in place.
        model: Any instance of the model that is trained.
        test_data: (x, y) or a loader; a batch may be a dict with its labels under "labels" or "label".
        private: Whether clients' models must stay private; then only round forgetting is measured, with a
            warning. By default Flower's differential privacy and secure aggregation are detected; noise that
            clients add cannot be detected here.
        folder: Where each round is also written, for `eunoe compare`, `diagnose`, `report` and `watch`.
        name: The name of the run, by default its folder, or the strategy's class. `eunoe compare` takes
            runs of one name as seeds of one setting.

    Example::

        strategy = eunoe.flower.measure(FedAvg(), model, (x_test, y_test), folder="runs/fedavg")
        strategy.start(grid, initial_arrays, num_rounds=50)
        print(strategy.forgetting.summary())
    """
    wrapper = wrap(strategy)
    if wrapper.recorder is not None:
        raise InputError(f"measure was already called on this {type(strategy).__name__}: call it once")
    name = name or (type(strategy).__name__ if folder is None else str(folder))
    recorder = Recorder(model, test_data, name, None if folder is None else Path(folder))
    reason = _detect_privacy(strategy) if private is None else ("private=True was passed" if private else "")
    if reason:
        recorder.hide(reason)
    wrapper.attach(recorder=recorder)
    strategy.forgetting = recorder.forgetting  # type: ignore[attr-defined]
    return strategy


def _detect_privacy(strategy: object) -> str:
    """Return the privacy wrapper around a strategy that forbids evaluating clients' models; empty if none."""
    while strategy is not None:
        for kind in type(strategy).__mro__:
            if kind.__name__.startswith(PRIVATE_CLASSES):
                return f"{kind.__name__} keeps clients private"
        strategy = getattr(strategy, "strategy", None)
    return ""


class Api(NamedTuple):
    """One of Flower's two interfaces: the names of its methods and its representation of a model."""

    configure: str
    aggregate: str
    read_model: Callable[[Any], Arrays]
    write_model: Callable[[Arrays], Any]
    read_replies: Callable[[Iterable[Any], Iterable[str]], list[Reply]]


class Wrapper:
    """Measures or averages the models that pass through a strategy, or both."""

    def __init__(self, api: Api) -> None:
        self.api = api
        self.recorder: Recorder | None = None
        self.average: TensorAverage | None = None
        # The newest model as the strategy returned it, and its average, which everybody but the clients gets.
        self._newest: Any = None
        self._averaged: Arrays = {}

    def attach(self, recorder: Recorder | None = None, average: TensorAverage | None = None) -> None:
        """Add a recorder or an average."""
        self.recorder, self.average = recorder or self.recorder, average or self.average
        if self.recorder is not None:
            self.recorder.write_config(self.average.options.decay if self.average else None)

    def start(self, model: Any) -> Any:
        """Return the model to send: the newest in place of its average, else the one that was passed."""
        arrays = self.api.read_model(model)
        if self.average is not None and self._averaged:
            if same(arrays, self._averaged):
                model, arrays = self._newest, self.api.read_model(self._newest)
            else:
                # Another model than the last one begins another run.
                self.average, self._averaged = TensorAverage(self.average.options.decay or 0.0), {}
        if self.recorder is not None:
            self.recorder.record_start(arrays)
        return model

    def receive(self, replies: list[Any]) -> None:
        if self.recorder is not None:
            self.recorder.record_local(self.api.read_replies(replies, self.recorder.names))

    def finish(self, number: int, model: Any) -> Any:
        """Return the model to evaluate: the average if there is one, else the new model."""
        arrays, average = None if model is None else self.api.read_model(model), None
        if self.average is not None and arrays is not None:
            tensors = {name: torch.as_tensor(array) for name, array in arrays.items()}
            average = {name: tensor.numpy() for name, tensor in self.average.update(tensors).items()}
            self._newest, self._averaged = model, average
            model = self.api.write_model(average)
        if self.recorder is not None:
            self.recorder.record_aggregated(number, arrays, average)
        return model


def wrap(strategy: object) -> Wrapper:
    """Return the wrapper of a strategy, whose methods are patched the first time."""
    wrapper: Wrapper | None = getattr(strategy, "_eunoe", None)
    if wrapper is not None:
        return wrapper
    wrapper = Wrapper(api := _find_api(strategy))
    configure, aggregate = getattr(strategy, api.configure), getattr(strategy, api.aggregate)

    @functools.wraps(configure)
    def configure_and_note(*args: Any, **kwargs: Any) -> Any:
        call = _Call(configure, args, kwargs)
        call.arguments[1] = wrapper.start(call.arguments[1])
        return call.make()

    @functools.wraps(aggregate)
    def aggregate_and_note(*args: Any, **kwargs: Any) -> Any:
        call = _Call(aggregate, args, kwargs)
        # An iterator would be exhausted by reading it, and aggregation empties the records it reads.
        call.arguments[1] = list(call.arguments[1])
        wrapper.receive(call.arguments[1])
        model, *rest = call.make()
        return (wrapper.finish(call.arguments[0], model), *rest)

    # Patched on the object, since the strategy's own loop calls self.aggregate_train.
    setattr(strategy, api.configure, configure_and_note)
    setattr(strategy, api.aggregate, aggregate_and_note)
    strategy._eunoe = wrapper  # type: ignore[attr-defined]
    return wrapper


class _Call:
    """A call with its arguments in order: the round, then the model or the replies, whatever their names."""

    def __init__(self, method: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
        call = inspect.signature(method).bind(*args, **kwargs)
        self.method, self.names = method, list(call.kwargs)
        self.arguments = [*call.args, *call.kwargs.values()]

    def make(self) -> Any:
        unnamed = len(self.arguments) - len(self.names)
        named = dict(zip(self.names, self.arguments[unnamed:], strict=True))
        return self.method(*self.arguments[:unnamed], **named)


def _find_api(strategy: object) -> Api:
    if hasattr(strategy, "aggregate_train"):
        return Api("configure_train", "aggregate_train", _read_record, _write_record, _read_messages)
    if hasattr(strategy, "aggregate_fit"):
        return Api("configure_fit", "aggregate_fit", _read_parameters, _write_parameters, _read_results)
    name = type(strategy).__name__
    raise InputError(f"{name} is not a Flower strategy: it has no aggregate_train or aggregate_fit")


def _read_record(record: Any) -> Arrays:
    return {key: array.numpy() for key, array in record.items()}


def _write_record(arrays: Arrays) -> Any:
    from flwr.app import Array, ArrayRecord

    return ArrayRecord({name: Array(array) for name, array in arrays.items()})


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


def _write_parameters(arrays: Arrays) -> Any:
    from flwr.common import ndarrays_to_parameters

    return ndarrays_to_parameters(list(arrays.values()))


def _read_results(results: Iterable[Any], _: Iterable[str]) -> list[Reply]:
    return [(client.cid, _read_parameters(result.parameters)) for client, result in results]

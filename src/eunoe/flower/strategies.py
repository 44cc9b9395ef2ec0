"""The strategy of another Flower project, with its model measured or averaged where it passes through.

Both of Flower's interfaces work: the one on messages (configure_train and aggregate_train) and the older one
(configure_fit and aggregate_fit). `measure` and `average` share one wrapper, so their order does not matter.
"""

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import torch

from eunoe.errors import InputError
from eunoe.flower.recorder import Arrays, Recorder, Reply, same
from eunoe.server.averaging import TensorAverage


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

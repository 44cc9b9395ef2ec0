"""Attaches the streams of a configuration to its federation."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from eunoe.config import registry
from eunoe.config.options import Named
from eunoe.config.schema import Config
from eunoe.core.rng import generator
from eunoe.core.tasks import check_task
from eunoe.data.federation import Federation
from eunoe.data.partitions.base import Division
from eunoe.data.partitions.without_labels import Natural
from eunoe.data.streams.base import CombinedChanges, Stream, Timeline
from eunoe.data.streams.changes import ClassesInPhases

Partition = Callable[..., Division]


def with_streams(config: Config) -> Config:
    """Return the configuration with the defaults of its streams that follow from the rounds, for storing."""
    if not config.stream:
        return config
    settled = []
    for section, stream in zip(config.stream, _streams(config), strict=True):
        values = stream.resolve(config.rounds).model_dump(mode="json", exclude_none=True, exclude_unset=True)
        settled.append(section.model_copy(update=values))
    return config.model_copy(update={"stream": tuple(settled)})


def apply_stream(config: Config, federation: Federation, partition: Partition | None) -> Federation:
    """Return the federation with the changes of the configuration's streams."""
    if federation.changes is not None or not config.stream:
        return federation
    timeline = Timeline(federation, config.seed, _division(config, federation, partition))
    streams = _streams(with_streams(config))
    for section, stream in zip(config.stream, streams, strict=True):
        check_task(stream, federation.task, "stream", section.name)
    streams.sort(key=lambda stream: not stream.divides)
    parts = [stream.bind(timeline) for stream in streams]
    return replace(federation, changes=parts[0] if len(parts) == 1 else CombinedChanges(parts))


def phase_metrics(federation: Federation, rounds: int) -> list[Named]:
    """Return the metric of a stream's phases, if there is a stream."""
    changes = federation.changes
    if changes is None:
        return []
    options: dict[str, object] = {"first_rounds": changes.phases(rounds)}
    parts = changes.parts if isinstance(changes, CombinedChanges) else [changes]
    for part in parts:
        if isinstance(part, ClassesInPhases):
            # Its phases alone, since each has a group of classes.
            options = {"first_rounds": part.phases(rounds), "groups": part.groups}
    return [Named.model_validate({"name": "phases", **options})]


def _streams(config: Config) -> list[Stream]:
    return [registry.build("stream", section.name, section.options) for section in config.stream]


def _division(
    config: Config, federation: Federation, partition: Partition | None
) -> Callable[[int], Division] | None:
    """Return what draws further partitions of the clients' training rows."""
    if partition is None or isinstance(partition, Natural):
        return None

    def divide(number: int) -> Division:
        rows = np.sort(federation.pooled("train")[0])
        labels, writers = federation.data.train.y.numpy()[rows], federation.data.writers_train
        groups = None if writers is None else writers.numpy()[rows]
        rng = generator(config.seed, f"stream partition {number}")
        order, offsets = partition(labels, rng, groups)
        # In random order within each client: a share of them is a share of each class.
        owners = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
        mixed = rng.permutation(len(order))
        return rows[order[mixed[np.argsort(owners[mixed], kind="stable")]]], offsets

    return divide

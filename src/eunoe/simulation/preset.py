"""The recommended preset: changes of a config that follow from its clients."""

from collections.abc import Mapping
from typing import Any

from eunoe.analysis.remedies import Clients, averaging_decay, recommend
from eunoe.config.schema import make_config
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.simulation.build import build_federation


def apply_preset(values: Mapping[str, Any], federation: Federation | None = None) -> dict[str, Any]:
    """Return config values without `preset`, with its changes made: method, averaging, rate and schedule."""
    values = dict(values)
    name = values.pop("preset", None)
    if name is None:
        return values
    if name != "recommended":
        raise InputError(f"there is no preset {name!r}: use 'recommended'")
    config = make_config(values)
    federation = federation or build_federation(config)
    clients = Clients.of(federation.all_counts(), config.participants(len(federation)))
    averaging = {"averaging": {"decay": averaging_decay(config.rounds)}}
    return {**values, **(recommend(clients).apply(values, config) or {}), **averaging}

"""Keyword arguments of a run before validation: user-provided objects, and the recommended preset."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from eunoe.analysis.remedies import Clients, averaging_decay, recommend
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import merge, read_config
from eunoe.data.federation import Federation
from eunoe.errors import InputError
from eunoe.losses.base import Loss
from eunoe.methods.base import Method
from eunoe.server.optimizers import ServerOptimizer
from eunoe.simulation.build import UserObjects, build_federation

ConfigLike = Config | Mapping[str, Any] | Path | str | None
KINDS: Mapping[str, tuple[type, str]] = {
    "model": (nn.Module, "a torch.nn.Module"),
    "method": (Method, "a method derived from eunoe.Method"),
    "loss": (Loss, "a loss derived from eunoe.losses.Loss"),
    "server_optimizer": (ServerOptimizer, "one derived from eunoe.server.ServerOptimizer"),
}


def split_user_objects(federation: Any, values: Mapping[str, Any]) -> tuple[UserObjects, dict[str, Any]]:
    """Split keyword arguments into objects and config values, with a placeholder for each object."""
    objects = {key: values[key] for key, (kind, _) in KINDS.items() if isinstance(values.get(key), kind)}
    for key in KINDS.keys() & values.keys() - objects.keys():
        _check(key, values[key])
    plain = {**values, **{key: {"name": f"given:{type(it).__name__}"} for key, it in objects.items()}}
    if federation is None:
        return UserObjects(**objects), plain
    if isinstance(federation, str | Path):
        raise InputError(f"federation cannot be a path: use data={str(federation)!r}")
    if not isinstance(federation, Federation):
        kind = type(federation).__name__
        raise InputError(f"federation cannot be a {kind}: use eunoe.Federation.from_arrays or from_torch")
    for key in ("data", "partition", "split", "public", "shift"):
        if key in values:
            raise InputError(f"{key} cannot be combined with federation, which defines it: pass one of them")
    given = {"data": {"name": "given"}, "partition": {"name": "given"}}
    return UserObjects(federation=federation, **objects), plain | given


def merge_values(
    config: ConfigLike, federation: Federation | None, values: Mapping[str, Any]
) -> tuple[UserObjects, dict[str, Any]]:
    """Return the user's objects, and a configuration and keyword arguments merged into config values."""
    objects, plain = split_user_objects(federation, values)
    if isinstance(config, Path | str):
        config = read_config(Path(config))
    # What is left out stays so: without a named engine, runs of several seeds train in lockstep.
    base = config.model_dump(exclude_unset=True) if isinstance(config, Config) else dict(config or {})
    return objects, apply_preset(merge(base, plain), federation)


def _check(key: str, value: Any) -> None:
    """Raise InputError for a value that is neither a name, nor a section, nor an object of the right type."""
    kind, wanted = KINDS[key]
    if isinstance(value, type) and issubclass(value, kind):
        raise InputError(f"{key} is a class: pass an instance, as in {value.__name__}(...)")
    if key == "loss" and isinstance(value, nn.Module):
        raise InputError("loss cannot be a PyTorch module: use 'ce', or derive from eunoe.losses.Loss")
    if callable(value):
        raise InputError(f"{key} must be a name, a section or {wanted}, not a {type(value).__name__}")


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

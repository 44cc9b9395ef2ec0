"""Describe the public interface as text: names, signatures, config fields, registered names, commands.

`make api` writes it to tests/public_api.txt. A test compares that file with the code, so that a change of the
interface is noticed when it is made.
"""

import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import GenericAlias
from typing import Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel

import eunoe
from eunoe.cli.app import app
from eunoe.config import registry
from eunoe.config.options import Named
from eunoe.config.registry import KINDS, PRESETS
from eunoe.config.schema import Config

# Public names that are not in `eunoe` itself: for extensions, or with an extra.
PACKAGES = {
    "eunoe.data": "DataSet Partition Samples TableEncoder TextEncoder",
    "eunoe.engines": "Broadcast ClientStates Engine Serial Simulation Update",
    "eunoe.flower": "measure",
    "eunoe.flower.client": "client_app",
    "eunoe.flower.loopback": "start",
    "eunoe.flower.server": "server_app",
    "eunoe.losses": "Loss client_loss",
    "eunoe.methods": "Aggregate Batch ClientContext Cost Finished Method Neutral RoundContext ServerUpdate "
    "Upload Vectors Weights",
    "eunoe.metrics": "Metric Evaluation EvaluationMetric Predictions Rows Snapshot",
    "eunoe.models": "Classifier",
    "eunoe.server": "Aggregate ServerOptimizer",
    "eunoe.testing": "check_method",
    "eunoe.trackers": "TrackedRun Tracker",
}


def describe_api() -> str:
    """Return the description of the whole interface."""
    names = [name for name in sorted(eunoe.__all__) if name != "__version__"]
    objects = {name: getattr(eunoe, name) for name in names}
    for package, further in PACKAGES.items():
        for name in further.split():
            objects[f"{package.removeprefix('eunoe.')}.{name}"] = getattr(import_module(package), name)
    parts = {
        "Python, in eunoe": (line for name, thing in objects.items() for line in _python(name, thing)),
        "Config": _fields(Config),
        "Named things, with their options": _named(),
        "Command line": _commands(typer.main.get_command(app), "eunoe"),
    }
    return "\n".join(
        f"# {title}\n" + "".join(f"{line}\n" for line in lines) for title, lines in parts.items()
    )


def _python(name: str, thing: Any) -> Iterator[str]:
    if isinstance(thing, GenericAlias):
        yield f"{name} = {thing}"
        return
    if not isinstance(thing, type):
        yield f"{name}{_signature(thing)}"
        return
    if issubclass(thing, Exception):
        yield f"class {name}({thing.__bases__[0].__name__})"
        return
    # The fields of a config have a part of their own.
    yield f"class {name}" + (_signature(thing) if thing is not Config else "")
    members = {key for base in thing.__mro__ if base.__module__.startswith("eunoe") for key in vars(base)}
    told = {*inspect.signature(thing).parameters, "model_config", "model_post_init"}
    for key in sorted(key for key in members - told if not key.startswith("_")):
        value = getattr(thing, key)
        yield f"    .{key}" + (_signature(value) if callable(value) else "")


def _signature(thing: Any) -> str:
    """Format the parameters with defaults, without types, whose spelling depends on Python."""
    shown, starred = [], False
    for p in inspect.signature(thing).parameters.values():
        if p.kind is p.KEYWORD_ONLY and not starred:
            shown.append("*")
        starred = starred or p.kind in (p.KEYWORD_ONLY, p.VAR_POSITIONAL)
        name = "*" * (p.kind is p.VAR_POSITIONAL) + "**" * (p.kind is p.VAR_KEYWORD) + p.name
        shown.append(name if p.default is p.empty else f"{name}={_value(p.default)}")
    return f"({', '.join(shown)})"


def _fields(model: type[BaseModel], prefix: str = "") -> Iterator[str]:
    for key, field in model.model_fields.items():
        types = list(_types(field.annotation))
        sections = [t for t in types if isinstance(t, type) and issubclass(t, BaseModel)]
        choices = next((get_args(t) for t in types if get_origin(t) is Literal), ())
        of = f" of {', '.join(map(str, choices))}" if choices else ""
        if field.is_required():
            yield f"{prefix}{key} (needed){of}"
        elif not isinstance(field.default, BaseModel) or isinstance(field.default, Named):
            yield f"{prefix}{key} = {_value(field.default)}{of}"
        for section in sections:
            if section is not Named:
                yield from _fields(section, f"{prefix}{key}.")


def _types(annotation: Any) -> Iterator[Any]:
    """Yield a type and all types that it consists of."""
    yield annotation
    for part in get_args(annotation):
        yield from _types(part)


def _named() -> Iterator[str]:
    for kind in KINDS:
        for name in registry.names(kind):
            preset = kind == "method" and name in PRESETS
            takes = f": {registry.summary(kind, name)}" if preset else _signature(registry.find(kind, name))
            yield f"{kind} {name}{takes}"


def _commands(command: Any, name: str) -> Iterator[str]:
    """Yield every command with its arguments and options."""
    if hasattr(command, "commands"):
        for key, inner in sorted(command.commands.items()):
            yield from _commands(inner, f"{name} {key}")
        return
    yield name
    # Typer's own classes describe types in a way that differs between versions.
    taken = inspect.signature(command.callback).parameters
    for p in command.params:
        told = p.name.upper() if p.param_type_name == "argument" else "/".join([*p.opts, *p.secondary_opts])
        if p.multiple or p.nargs == -1:
            told += " ..."
        types = _types(taken[p.name].annotation)
        choices = next((get_args(t) for t in types if get_origin(t) is Literal), ())
        if p.required:
            told += " (needed)"
        elif p.default is not None:
            told += f" = {p.default if choices else _value(p.default)}"
        yield f"    {told}" + (f" of {', '.join(choices)}" if choices else "")


def _value(value: Any) -> str:
    """Format a value briefly."""
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, BaseModel):
        fields = value.model_dump(exclude_defaults=True)
        return f"{{{', '.join(f'{key} = {_value(inner)}' for key, inner in fields.items())}}}"
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(_value, value))}]"
    return getattr(value, "__name__", None) or repr(value)


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(describe_api(), "utf-8")

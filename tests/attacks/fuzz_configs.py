"""Configs with senseless options; what is accepted is run for a round."""

import math
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args

import numpy as np
from pydantic import BaseModel

from eunoe.config import registry
from eunoe.config.messages import sections_of
from eunoe.config.options import Named
from eunoe.config.schema import Config, make_config
from eunoe.config.settings import apply_settings, merge, read_config
from eunoe.data import builtin
from eunoe.simulation.running import run

BASE: dict[str, Any] = {
    "rounds": 1,
    "participation": 2,
    "partition": {"clients": 5},
    "model": {"name": "mlp", "hidden": [4]},
    "training": {"steps": 1, "batch_size": 4},
    "engine": "serial",
    "probes": [],
    "public": {"share": 0.05},
    "evaluation": {"last": 1, "chunk": 100},
}
HOSTILE: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3, 7, 10**6, 2**31, 2**63, 2**64, 10**30, -(10**30)),
    *(0.0, -0.5, 0.1, 0.5, 1.0, 1.5, 1e-300, 1e-9, 1e9, 1e300, math.nan, math.inf, -math.inf),
    *(
        "",
        " ",
        "a",
        "\x1b[31mred",
        "\ud800",
        "a\u202eb",
        "line\nbreak",
        "../x",
        "/",
        "x.npz",
        "ä" * 300,
        "0",
        "1e5",
    ),
    *("cpu", "cuda", "cuda:99", "meta", "cpu:-1", "xla", "mkldnn", "cpu:0:1"),
    *([], [0], [1, 2, 3], [[1]], [None], ["a", "b"], {}, {"name": 1}, {"name": "a", "b": {"c": []}}),
)
# Names whose components would reach out of this process or take long to import.
OUTSIDE = {"ray", "process", "wandb", "mlflow", "tensorboard", "hub", "flower"}
KINDS = {
    "partition": "partition",
    "model": "model",
    "loss": "loss",
    "method": "method",
    "server_optimizer": "server_optimizer",
    "aggregation": "aggregation",
    "engine": "engine",
}


@cache
def option_paths() -> tuple[tuple[str, ...], ...]:
    """Every option of a config, and those of every component by its section."""
    return tuple(_fields(Config, ()))


def _fields(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        inner = next(iter(sections_of(field.annotation)), None)
        yield (*above, name)
        if inner is not None and inner is not Named and len(above) < 2:
            yield from _fields(inner, (*above, name))
        if not above and name in KINDS:
            yield (name, "name")
            for component in sorted(set(registry.names(KINDS[name])) - OUTSIDE):
                for option in registry.options(registry.find(KINDS[name], component)):
                    yield (name, component, option)


def sensible(path: tuple[str, ...], rng: np.random.Generator) -> Any:
    """A value that the option may have."""
    if len(path) == 2 and path[1] == "name" and path[0] in KINDS:
        return pick(rng, [name for name in registry.names(KINDS[path[0]]) if name not in OUTSIDE])
    default: Any = None
    if len(path) == 3 and path[0] in KINDS:
        default = registry.options(registry.find(KINDS[path[0]], path[1]))[path[2]].default
    field: Any = Config
    for part in path:
        fields = getattr(field, "model_fields", {})
        if part not in fields:
            break
        default, annotation = fields[part].default, fields[part].annotation
        field = next(iter(sections_of(annotation)), annotation)
    if choices := [value for value in get_args(field) if isinstance(value, str)]:
        return pick(rng, choices)
    if isinstance(default, bool):
        return not default
    if isinstance(default, int | float):
        return pick(rng, [default, default * 2, type(default)(default / 2), type(default)(1)])
    return pick(rng, [0, 1, 2, 5, 0.1, 0.5, 1.0, True, [1], [2, 3]])


def pick(rng: np.random.Generator, values: Any) -> Any:
    return values[int(rng.integers(len(values)))]


def config_case(rng: np.random.Generator, home: Path) -> tuple[str, Callable[[], str]]:
    """A small config with one to three options changed."""
    builtin._read_digits = _digits
    changes: list[tuple[list[str], Any]] = []
    kinds = set()
    for _ in range(1 + int(rng.integers(3))):
        path = pick(rng, option_paths())
        odd = rng.random() < 0.5
        value = pick(rng, HOSTILE) if odd else sensible(path, rng)
        kinds.add("odd" if odd else "sensible")
        keys = list(path)
        if len(path) == 3 and path[0] in KINDS:
            changes.append(([path[0], "name"], path[1]))
            if path[0] == "partition" and path[2] != "clients":
                changes.append(([path[0], "clients"], 5))
            keys = [path[0], path[2]]
        changes.append((keys, value))
    way = pick(rng, ("values", "values", "--set", "file"))
    what = f"{way}, {' and '.join(sorted(kinds))} values"

    def action() -> str:
        values = _values(way, changes, rng, home)
        if values.get("track") or str(_name(values, "data")) not in ("digits", "x.npz", "a", ""):
            values = {**values, "track": (), "data": "digits"}
        run(make_config(values), out=home / "run", progress=False)
        return "ran"

    return what, action


def _values(
    way: str, changes: list[tuple[list[str], Any]], rng: np.random.Generator, home: Path
) -> dict[str, Any]:
    if way == "--set":
        settings = [f"{'.'.join(keys)}={_as_set(value)}" for keys, value in changes]
        return apply_settings(BASE, settings)
    nested: dict[str, Any] = {}
    for keys, value in changes:
        for key in reversed(keys):
            value = {key: value}
        nested = merge(nested, value)
    base = {key: value for key, value in BASE.items() if "name" not in _section(nested.get(key))}
    if way == "values":
        return merge(base, nested)
    text = "".join(f"{'.'.join(keys)} = {_as_set(value)}\n" for keys, value in changes).encode(
        "utf-8", "replace"
    )
    if rng.random() < 0.3:
        at = int(rng.integers(len(text)))
        text = text[:at] + bytes([int(rng.integers(256))]) + text[at + 1 :]
    (home / "config.toml").write_bytes(text)
    return merge(base, read_config(home / "config.toml"))


def _section(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _as_set(value: Any) -> str:
    if isinstance(value, str):
        return value if len(value) % 2 else repr(value)
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key} = {_as_set(inner)}" for key, inner in value.items()) + "}"
    return "" if value is None else str(value)


def _name(values: Mapping[str, Any], section: str) -> Any:
    value = values.get(section, "digits")
    return value.get("name", "digits") if isinstance(value, Mapping) else value


_read_digits = builtin._read_digits


@cache
def _digits() -> Any:
    return _read_digits()

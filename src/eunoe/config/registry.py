"""Named things: methods, losses, server optimizers, merges, models, data, engines and more.

A thing is a class whose keyword parameters are its options; a model, a data set or a partition may also
be a function. A config names it by a built-in name, by an installed entry point of the group
`eunoe.<kind>`, or as `package.module:name`; it is imported only when it is used.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, validate_call

from eunoe.config.builtin import KINDS, PRESETS, Kind
from eunoe.config.messages import explain
from eunoe.errors import InputError, nearest

Thing = Callable[..., Any]


def kinds() -> list[str]:
    """The keys of the kinds of things that have names."""
    return list(KINDS)


def names(kind: str) -> list[str]:
    """All names of this kind, built in or installed."""
    presets = PRESETS if kind == "method" else {}
    return sorted({*KINDS[kind].names, *presets, *(point.name for point in _installed(kind))})


def expand_preset(values: Mapping[str, Any]) -> dict[str, Any]:
    """Config values in which a name such as fedadam is written out as fedavg and its server optimizer.

    Its options are those of both.
    """
    values = dict(values)
    method = values.get("method")
    section = method if isinstance(method, Mapping) else {"name": method}
    name = section.get("name")
    if not isinstance(name, str) or name not in PRESETS:
        return values
    preset, other = PRESETS[name], values.get("server_optimizer")
    given = other if isinstance(other, Mapping) else {"name": other}
    default = {"name": "sgd", **defaults("server_optimizer", "sgd", {})}
    if {**default, **{key: value for key, value in given.items() if value is not None}} != default:
        raise InputError(
            f"method {name!r} is fedavg with server optimizer {preset['name']!r}: leave server_optimizer out"
        )
    own = {key: value for key, value in section.items() if key in options(find("method", "fedavg"))}
    rest = {key: value for key, value in section.items() if key not in own and key != "name"}
    return {**values, "method": {"name": "fedavg", **own}, "server_optimizer": {**preset, **rest}}


def find(kind: str, name: str) -> Thing:
    """The thing of this name; for a name such as fedadam, its server optimizer."""
    if kind == "method" and name in PRESETS:
        kind, name = "server_optimizer", PRESETS[name]["name"]
    of = KINDS[kind]
    if path := of.names.get(name):
        return _load(of, path)
    if ":" in name:
        return _derived(of, name, _load(of, name))
    for point in _installed(kind):
        if point.name == name:
            return _derived(of, name, point.load())
    raise InputError(
        f"no {of.label} is called {name!r}; {nearest(name, names(kind))} "
        "(name your own as package.module:name)"
    )


def options(thing: Thing) -> dict[str, inspect.Parameter]:
    """The keyword parameters of a thing."""
    parameters = inspect.signature(thing).parameters
    return {name: p for name, p in parameters.items() if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}


def build(kind: str, name: str, given: Mapping[str, Any], **supplied: Any) -> Any:
    """Make the thing of this name from the options given, plus those of `supplied` that it takes."""
    thing, what = find(kind, name), f"{KINDS[kind].label} {name!r}"
    known = options(thing)
    free = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(thing).parameters.values())
    for key in given:
        if key in supplied or (key not in known and not free):
            mine = set(known) - set(supplied)
            raise InputError(f"{what} has no option {key!r}; {nearest(key, mine)}")
    arguments = {**{key: value for key, value in supplied.items() if key in known}, **given}
    missing = [
        key
        for key, p in known.items()
        if p.default is p.empty and key not in arguments and key not in supplied
    ]
    if missing:
        raise InputError(f"{what} needs the option {missing[0]!r}")
    try:
        if isinstance(thing, type) and issubclass(thing, BaseModel):
            return thing(**arguments)
        if isinstance(thing, type):
            maker = thing.__init__  # type: ignore[misc]
            return thing(**{**arguments, **_checked(maker, dict(given), what)})
        return validate_call(config=ConfigDict(arbitrary_types_allowed=True))(thing)(**arguments)
    except ValidationError as error:
        raise InputError(f"{what}: {explain(error)}") from None


def defaults(kind: str, name: str, given: Mapping[str, Any], supplied: Iterable[str] = ()) -> dict[str, Any]:
    """The options given, completed by the thing's own defaults, so that a config repeats a run for ever.

    A default that a config file cannot say (a class, say) is left out.
    """
    full = {}
    for key, parameter in options(find(kind, name)).items():
        if key not in supplied and isinstance(
            parameter.default, bool | int | float | str | list | tuple | dict
        ):
            full[key] = parameter.default
    return {**full, **given}


def summary(kind: str, name: str) -> str:
    """The first line of a thing's docstring."""
    if kind == "method" and name in PRESETS:
        preset = PRESETS[name]
        given = "".join(f", {key} = {value}" for key, value in preset.items() if key != "name")
        return f"fedavg with server optimizer {preset['name']}{given}"
    return (inspect.getdoc(find(kind, name)) or "").split("\n")[0]


def _checked(maker: Callable[..., Any], arguments: dict[str, Any], what: str) -> dict[str, Any]:
    """The arguments of a class that is no pydantic model, checked and converted by its annotations."""
    hints = {name: p.annotation for name, p in inspect.signature(maker, eval_str=True).parameters.items()}
    checked = {}
    for key, value in arguments.items():
        hint = hints.get(key, inspect.Parameter.empty)
        if hint is inspect.Parameter.empty:
            checked[key] = value
            continue
        try:
            checked[key] = TypeAdapter(hint, config=ConfigDict(arbitrary_types_allowed=True)).validate_python(
                value
            )
        except ValidationError as error:
            raise InputError(f"{what}: {key}: {explain(error)}") from None
    return checked


def _installed(kind: str) -> Iterable[Any]:
    return entry_points(group=f"eunoe.{kind}")


def _derived(kind: Kind, name: str, thing: Thing) -> Thing:
    """The thing, if it derives from the base of its kind."""
    if kind.base is not None:
        base = _load(kind, kind.base)
        if not (isinstance(thing, type) and isinstance(base, type) and issubclass(thing, base)):
            raise InputError(
                f"{kind.label} {name!r} must be a class that derives from {kind.base.replace(':', '.')}"
            )
    return thing


def _load(kind: Kind, path: str) -> Thing:
    module_name, _, attribute = path.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise InputError(f"{path!r} names no {kind.label}; your own is named as package.module:name")
    here = str(Path.cwd())
    if here not in sys.path:
        # A user's own file beside the config is found as it would be by `python -m`.
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise InputError(f"no module {module_name!r} to take the {kind.label} {path!r} from") from None
    thing = getattr(module, attribute, None)
    if not callable(thing):
        raise InputError(f"module {module_name!r} has no class or function called {attribute!r}")
    return thing  # type: ignore[no-any-return]

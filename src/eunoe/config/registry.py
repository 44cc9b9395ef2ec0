"""Registry of named components: methods, losses, aggregations, models, data sets, engines, metrics and so on.

A component is a class whose keyword parameters are its options; a model, a data set or a partition may also
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

Component = Callable[..., Any]


def kinds() -> list[str]:
    """The keys of the kinds of named components."""
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
    chosen = other if isinstance(other, Mapping) else {"name": other}
    default = {"name": "sgd", **defaults("server_optimizer", "sgd", {})}
    if {**default, **{key: value for key, value in chosen.items() if value is not None}} != default:
        raise InputError(
            f"method {name!r} is fedavg with server optimizer {preset['name']!r}: leave server_optimizer out"
        )
    own = {key: value for key, value in section.items() if key in options(find("method", "fedavg"))}
    rest = {key: value for key, value in section.items() if key not in own and key != "name"}
    return {**values, "method": {"name": "fedavg", **own}, "server_optimizer": {**preset, **rest}}


def find(kind: str, name: str) -> Component:
    """The component of this name; for a name such as fedadam, its server optimizer."""
    if kind == "method" and name in PRESETS:
        kind, name = "server_optimizer", PRESETS[name]["name"]
    of = KINDS[kind]
    if path := of.names.get(name):
        return _load(of, path)
    prefix, _, rest = name.partition(":")
    if path := of.prefixes.get(prefix):
        found: Component = _load(of, path)(rest)
        return found
    if ":" in name:
        return _derived(of, name, _load(of, name))
    for point in _installed(kind):
        if point.name == name:
            return _derived(of, name, point.load())
    raise InputError(
        f"no {of.label} is called {name!r}; {nearest(name, names(kind))} "
        "(name your own as package.module:name)"
    )


def options(component: Component) -> dict[str, inspect.Parameter]:
    """The keyword parameters of a component."""
    parameters = inspect.signature(component).parameters
    return {name: p for name, p in parameters.items() if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}


def build(kind: str, name: str, values: Mapping[str, Any], **supplied: Any) -> Any:
    """Build the component of this name from its options, plus those of `supplied` that it accepts."""
    component, what = find(kind, name), f"{KINDS[kind].label} {name!r}"
    known = options(component)
    free = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(component).parameters.values())
    for key in values:
        if key in supplied or (key not in known and not free):
            mine = set(known) - set(supplied)
            raise InputError(f"{what} has no option {key!r}; {nearest(key, mine)}")
    arguments = {**{key: value for key, value in supplied.items() if key in known}, **values}
    missing = [
        key
        for key, p in known.items()
        if p.default is p.empty and key not in arguments and key not in supplied
    ]
    if missing:
        raise InputError(f"{what} needs the option {missing[0]!r}")
    try:
        if isinstance(component, type) and issubclass(component, BaseModel):
            return component(**arguments)
        if isinstance(component, type):
            maker = component.__init__  # type: ignore[misc]
            return component(**{**arguments, **_checked(maker, dict(values), what)})
        return validate_call(config=ConfigDict(arbitrary_types_allowed=True))(component)(**arguments)
    except ValidationError as error:
        raise InputError(f"{what}: {explain(error)}") from None


def defaults(kind: str, name: str, values: Mapping[str, Any], supplied: Iterable[str] = ()) -> dict[str, Any]:
    """The options completed by the component's own defaults, so that a stored config repeats the run exactly.

    A default that a config file cannot express (such as a class) is left out.
    """
    full = {}
    for key, parameter in options(find(kind, name)).items():
        if key not in supplied and isinstance(
            parameter.default, bool | int | float | str | list | tuple | dict
        ):
            full[key] = parameter.default
    return {**full, **values}


def summary(kind: str, name: str) -> str:
    """The first line of a component's docstring."""
    if kind == "method" and name in PRESETS:
        preset = PRESETS[name]
        values = "".join(f", {key} = {value}" for key, value in preset.items() if key != "name")
        return f"fedavg with server optimizer {preset['name']}{values}"
    return (inspect.getdoc(find(kind, name)) or "").split("\n")[0]


def _checked(maker: Callable[..., Any], arguments: dict[str, Any], what: str) -> dict[str, Any]:
    """The arguments of a class that is not a pydantic model, validated by its annotations."""
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


def _derived(kind: Kind, name: str, component: Component) -> Component:
    """The component, checked to derive from the base of its kind."""
    if kind.base is not None:
        base = _load(kind, kind.base)
        if not (isinstance(component, type) and isinstance(base, type) and issubclass(component, base)):
            raise InputError(
                f"{kind.label} {name!r} must be a class that derives from {kind.base.replace(':', '.')}"
            )
    return component


def _load(kind: Kind, path: str) -> Component:
    module_name, _, attribute = path.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise InputError(f"{path!r} names no {kind.label}; your own is named as package.module:name")
    here = str(Path.cwd())
    if here not in sys.path:
        # A user's own file in the working directory is found as with `python -m`.
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise InputError(f"no module {module_name!r} to import the {kind.label} {path!r} from") from None
    component = getattr(module, attribute, None)
    if not callable(component):
        raise InputError(f"module {module_name!r} has no class or function called {attribute!r}")
    return component  # type: ignore[no-any-return]

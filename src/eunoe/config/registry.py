"""Registry of named components: methods, losses, aggregations, models, data sets, engines, metrics and so on.

A component is a class whose keyword parameters are its options; a model, a data set or a partition may also
be a function. A config gives its built-in name, an installed entry point of the group `eunoe.<kind>`, or
`package.module:name`. Components are imported when they are used.
"""

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError

from eunoe.config.messages import explain
from eunoe.errors import InputError, nearest
from eunoe.text import read_data


@dataclass(frozen=True)
class Kind:
    """A kind of component that a config names.

    `key` is the name in code and in entry points (`eunoe.<key>`), `plural` that in `eunoe list`, `section`
    the part of a config that names one, by default the key. A user's own class must derive from `base`, so
    that naming it cannot call anything else; without a base any class or function is accepted. `prefixes`
    maps the prefix of another library to a function: `flwr:Name` is the result of calling it with Name.
    `supplied` are the arguments that the library passes, which are not options.
    """

    key: str
    plural: str
    names: Mapping[str, str]
    section: str | None = None
    base: str | None = None
    supplied: Sequence[str] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """The name in messages."""
        return self.key.replace("_", " ")


_VALUES = read_data("eunoe.config", "builtin.toml")
PRESETS: dict[str, dict[str, Any]] = _VALUES.pop("presets")
KINDS = {key: Kind(key, **values) for key, values in _VALUES.items()}


Component = Callable[..., Any]
# Types of values that a config file can express.
_PLAIN = (bool, int, float, str, list, tuple, dict)


def names(kind: str) -> list[str]:
    """Return all names of a kind, built in or installed."""
    presets = PRESETS if kind == "method" else {}
    points = (point.name for point in entry_points(group=f"eunoe.{kind}"))
    return sorted({*KINDS[kind].names, *presets, *points})


def expand_preset(values: Mapping[str, Any]) -> dict[str, Any]:
    """Replace a method such as fedadam by fedavg and its server optimizer; it has the options of both."""
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
        raise InputError(f"method {name!r} sets the server optimizer: leave server_optimizer out")
    known = options(find("method", "fedavg"))
    own = {key: value for key, value in section.items() if key in known}
    rest = {key: value for key, value in section.items() if key not in known and key != "name"}
    return {**values, "method": {"name": "fedavg", **own}, "server_optimizer": {**preset, **rest}}


def find(kind: str, name: str) -> Component:
    """Return the component of this name; for a method such as fedadam, its server optimizer."""
    if kind == "method" and name in PRESETS:
        kind, name = "server_optimizer", PRESETS[name]["name"]
    of = KINDS[kind]
    if path := of.names.get(name):
        return _load(of, path)
    prefix, _, rest = name.partition(":")
    if path := of.prefixes.get(prefix):
        return _load(of, path)(rest)
    if ":" in name:
        return _check_base(of, name, _load(of, name))
    for point in entry_points(group=f"eunoe.{kind}"):
        if point.name == name:
            return _check_base(of, name, point.load())
    raise InputError(
        f"no {of.label} is called {name!r}; {nearest(name, names(kind))} (or package.module:name)"
    )


def options(component: Component) -> dict[str, inspect.Parameter]:
    """Return the keyword parameters of a component."""
    parameters = inspect.signature(component).parameters
    return {name: p for name, p in parameters.items() if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}


def build(kind: str, name: str, values: Mapping[str, Any], **supplied: Any) -> Any:
    """Build a component from its options and the arguments in `supplied` that it accepts."""
    component, what = find(kind, name), f"{KINDS[kind].label} {name!r}"
    known = options(component)
    free = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(component).parameters.values())
    for key in values:
        if key in supplied or (key not in known and not free):
            raise InputError(f"{what} has no option {key!r}; {nearest(key, set(known) - set(supplied))}")
    arguments = {**{key: value for key, value in supplied.items() if key in known}, **values}
    for key, parameter in known.items():
        if parameter.default is parameter.empty and key not in {**arguments, **supplied}:
            raise InputError(f"{what} needs the option {key!r}")
    if not (isinstance(component, type) and issubclass(component, BaseModel)):
        return component(**{**arguments, **_validate(component, values, what)})
    try:
        return component(**arguments)
    except ValidationError as error:
        raise InputError(f"{what}: {explain(error)}") from None


def defaults(kind: str, name: str, values: Mapping[str, Any]) -> dict[str, Any]:
    """Complete options by defaults that a config file can express: a stored config then repeats the run."""
    known, supplied = options(find(kind, name)).items(), KINDS[kind].supplied
    plain = {key: p.default for key, p in known if isinstance(p.default, _PLAIN) and key not in supplied}
    return {**plain, **values}


def summary(kind: str, name: str) -> str:
    """Return the first line of a component's docstring."""
    if kind == "method" and name in PRESETS:
        preset = PRESETS[name]
        values = "".join(f", {key} = {value}" for key, value in preset.items() if key != "name")
        return f"fedavg with server optimizer {preset['name']}{values}"
    return (inspect.getdoc(find(kind, name)) or "").split("\n")[0]


def _validate(component: Component, values: Mapping[str, Any], what: str) -> dict[str, Any]:
    """Validate the options of a function, or of a class that is not a pydantic model, by its annotations."""
    parameters = inspect.signature(component, eval_str=True).parameters
    validated = dict(values)
    for key, value in values.items():
        if key in parameters and (annotation := parameters[key].annotation) is not inspect.Parameter.empty:
            # A model has a config of its own.
            own = isinstance(annotation, type) and issubclass(annotation, BaseModel)
            config = None if own else ConfigDict(arbitrary_types_allowed=True)
            try:
                validated[key] = TypeAdapter(annotation, config=config).validate_python(value)
            except ValidationError as error:
                raise InputError(f"{what}: {key}: {explain(error)}") from None
    return validated


def _check_base(kind: Kind, name: str, component: Component) -> Component:
    """Return the component if it derives from the base of its kind."""
    if kind.base is not None:
        base = _load(kind, kind.base)
        if not (isinstance(component, type) and isinstance(base, type) and issubclass(component, base)):
            raise InputError(f"{kind.label} {name!r} must derive from {kind.base.replace(':', '.')}")
    return component


def _load(kind: Kind, path: str) -> Component:
    module_name, _, attribute = path.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise InputError(f"invalid {kind.label} {path!r}: write your own as package.module:name")
    folder = str(Path.cwd())
    if folder not in sys.path:
        # Find modules in the working directory, as `python -m` does.
        sys.path.append(folder)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise InputError(f"cannot import {kind.label} {path!r}: there is no module {module_name!r}") from None
    component = getattr(module, attribute, None)
    if not callable(component):
        raise InputError(f"module {module_name!r} has no class or function {attribute!r}")
    return component

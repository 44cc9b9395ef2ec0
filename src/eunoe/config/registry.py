"""Named things: methods, losses, models, data sets, partitions, server optimizers, trackers.

A thing is a class whose keyword parameters are its options; a model, a data set or a partition may also
be a function. It is named in a config by a built-in name, by an installed entry point of the group
`eunoe.<kind>`, or as `package.module:name`, and is imported only when it is used.
"""

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError, validate_call

from eunoe.errors import InputError, nearest

Thing = Callable[..., Any]

# What pydantic adds to the place of an error where a field may be one of several types.
_UNION_MEMBER = re.compile(r"int|float|str|bool|(tuple|list|constrained-|function-|literal).*")

# What pydantic says of Python's types, as a config file knows them.
_SECTION, _LIST = "input should be a section of options", "input should be a list"
_IN_A_FILE = {
    "model_type": _SECTION,
    "dict_type": _SECTION,
    "tuple_type": _LIST,
    "list_type": _LIST,
    "sequence_str": _LIST,
    "is_instance_of Sequence": _LIST,
}

_BUILT_IN: dict[str, dict[str, str]] = {
    "method": {
        "central": "eunoe.methods.central:Central",
        "fedacg": "eunoe.methods.fedacg:FedACG",
        "fedavg": "eunoe.methods.fedavg:FedAvg",
        "fedcm": "eunoe.methods.fedcm:FedCM",
        "fedcurv": "eunoe.methods.fedcurv:FedCurv",
        "feddf": "eunoe.methods.feddf:FedDF",
        "feddyn": "eunoe.methods.feddyn:FedDyn",
        "fednova": "eunoe.methods.fednova:FedNova",
        "fedntd": "eunoe.methods.fedntd:FedNTD",
        "fedprox": "eunoe.methods.fedprox:FedProx",
        "fedreg": "eunoe.methods.fedreg:FedReg",
        "fedsam": "eunoe.methods.fedsam:FedSAM",
        "fedvls": "eunoe.methods.fedvls:FedVLS",
        "finetune": "eunoe.methods.finetune:FineTune",
        "flashback": "eunoe.methods.flashback:Flashback",
        "labelwise": "eunoe.methods.labelwise:Labelwise",
        "moon": "eunoe.methods.moon:Moon",
        "scaffold": "eunoe.methods.scaffold:Scaffold",
    },
    "loss": {
        "balanced": "eunoe.losses.base:Balanced",
        "ce": "eunoe.losses.base:CrossEntropy",
        "fedlc": "eunoe.losses.base:FedLC",
        "fedrs": "eunoe.losses.base:FedRS",
        "logit_adjusted": "eunoe.losses.base:LogitAdjusted",
        "masked": "eunoe.losses.base:Masked",
        "tce": "eunoe.losses.base:TCE",
        "wsm": "eunoe.losses.base:WSM",
    },
    "server optimizer": {
        "adagrad": "eunoe.server.optimizers:Adagrad",
        "adam": "eunoe.server.optimizers:Adam",
        "fedexp": "eunoe.server.fedexp:FedExP",
        "sgd": "eunoe.server.optimizers:SGD",
        "momentum": "eunoe.server.optimizers:Momentum",
        "yogi": "eunoe.server.optimizers:Yogi",
    },
    "model": {
        "cnn": "eunoe.models.cnn:CNN",
        "lenet": "eunoe.models.lenet:LeNet",
        "logistic": "eunoe.models.logistic:Logistic",
        "mlp": "eunoe.models.mlp:MLP",
        "mnist_cnn": "eunoe.models.mnist_cnn:MnistCNN",
        "resnet18": "eunoe.models.resnet18:ResNet18",
        "small_cnn": "eunoe.models.small_cnn:SmallCNN",
    },
    "data set": {
        "digits": "eunoe.data.builtin:digits",
        "mnist": "eunoe.data.builtin:mnist",
        "fashion_mnist": "eunoe.data.builtin:fashion_mnist",
        "cifar10": "eunoe.data.builtin:cifar10",
        "cifar100": "eunoe.data.builtin:cifar100",
        "cinic10": "eunoe.data.builtin:cinic10",
        "femnist": "eunoe.data.builtin:femnist",
        "omniglot": "eunoe.data.builtin:omniglot",
        "npz": "eunoe.data.sources.npz:npz",
        "folder": "eunoe.data.sources.folder:folder",
        "hub": "eunoe.data.sources.hub:hub",
    },
    "partition": {
        "classes": "eunoe.data.partitions.classes:Classes",
        "dirichlet": "eunoe.data.partitions.dirichlet:Dirichlet",
        "dirichlet_by_class": "eunoe.data.partitions.dirichlet_by_class:DirichletByClass",
        "iid": "eunoe.data.partitions.iid:Iid",
        "natural": "eunoe.data.partitions.natural:Natural",
        "quantity": "eunoe.data.partitions.quantity:Quantity",
        "shards": "eunoe.data.partitions.shards:Shards",
    },
    "tracker": {
        "mlflow": "eunoe.trackers.mlflow:MLflow",
        "tensorboard": "eunoe.trackers.tensorboard:TensorBoard",
        "wandb": "eunoe.trackers.wandb:WandB",
    },
}

# What a class of the user's own must derive from, so that nothing else is called by naming it here.
_BASES: dict[str, str] = {
    "method": "eunoe.methods.base:Method",
    "loss": "eunoe.losses.base:Loss",
    "server optimizer": "eunoe.server.optimizers:ServerOptimizer",
    "tracker": "eunoe.trackers.base:Tracker",
}

# Methods that are fedavg with a server optimizer, by the names that the papers give them.
STEPPED: dict[str, dict[str, Any]] = {
    "fedadagrad": {"name": "adagrad"},
    "fedadam": {"name": "adam"},
    "fedavgm": {"name": "momentum"},
    "fedexp": {"name": "fedexp"},
    "fedyogi": {"name": "yogi"},
    "gma": {"name": "sgd", "gma": 0.4},
}


def kinds() -> list[str]:
    """The kinds of things that have names."""
    return list(_BUILT_IN)


def names(kind: str) -> list[str]:
    """All names of this kind, built in or installed."""
    stepped = STEPPED if kind == "method" else {}
    return sorted({*_BUILT_IN[kind], *stepped, *(point.name for point in _installed(kind))})


def unalias(values: Mapping[str, Any]) -> dict[str, Any]:
    """Config values with a name for fedavg with a server optimizer written out; its options are of both."""
    values = dict(values)
    method = values.get("method")
    section = method if isinstance(method, Mapping) else {"name": method}
    name = section.get("name")
    if not isinstance(name, str) or name not in STEPPED:
        return values
    step, other = STEPPED[name], values.get("server_optimizer")
    given = other if isinstance(other, Mapping) else {"name": other}
    default = {"name": "sgd", **defaults("server optimizer", "sgd", {})}
    if {**default, **{key: value for key, value in given.items() if value is not None}} != default:
        raise InputError(
            f"method {name!r} is fedavg with server optimizer {step['name']!r}: leave server_optimizer out"
        )
    own = {key: value for key, value in section.items() if key in options(find("method", "fedavg"))}
    rest = {key: value for key, value in section.items() if key not in own and key != "name"}
    return {**values, "method": {"name": "fedavg", **own}, "server_optimizer": {**step, **rest}}


def find(kind: str, name: str) -> Thing:
    """The thing of this name; for a name for fedavg with a server optimizer, that step."""
    if kind == "method" and name in STEPPED:
        kind, name = "server optimizer", STEPPED[name]["name"]
    if path := _BUILT_IN[kind].get(name):
        return _load(kind, path)
    if ":" in name:
        return _of_its_kind(kind, name, _load(kind, name))
    for point in _installed(kind):
        if point.name == name:
            return _of_its_kind(kind, name, point.load())
    raise InputError(
        f"no {kind} is called {name!r}; {nearest(name, names(kind))} (name your own as package.module:name)"
    )


def options(thing: Thing) -> dict[str, inspect.Parameter]:
    """The keyword parameters of a thing."""
    parameters = inspect.signature(thing).parameters
    return {name: p for name, p in parameters.items() if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}


def build(kind: str, name: str, given: Mapping[str, Any], **supplied: Any) -> Any:
    """Make the thing of this name from the options given, plus those of `supplied` that it takes."""
    thing = find(kind, name)
    known = options(thing)
    free = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(thing).parameters.values())
    for key in given:
        if key in supplied or (key not in known and not free):
            mine = set(known) - set(supplied)
            raise InputError(f"{kind} {name!r} has no option {key!r}; {nearest(key, mine)}")
    arguments = {**{key: value for key, value in supplied.items() if key in known}, **given}
    missing = [
        key
        for key, p in known.items()
        if p.default is p.empty and key not in arguments and key not in supplied
    ]
    if missing:
        raise InputError(f"{kind} {name!r} needs the option {missing[0]!r}")
    try:
        if isinstance(thing, type) and issubclass(thing, BaseModel):
            return thing(**arguments)
        if isinstance(thing, type):
            maker = thing.__init__  # type: ignore[misc]
            return thing(**_checked(maker, arguments, f"{kind} {name!r}"))
        return validate_call(config=ConfigDict(arbitrary_types_allowed=True))(thing)(**arguments)
    except ValidationError as error:
        raise InputError(f"{kind} {name!r}: {explain(error)}") from None


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
    if kind == "method" and name in STEPPED:
        step = dict(STEPPED[name])
        given = "".join(f", {key} = {value}" for key, value in step.items() if key != "name")
        return f"fedavg with server optimizer {step['name']}{given}"
    return (inspect.getdoc(find(kind, name)) or "").split("\n")[0]


def explain(error: ValidationError) -> str:
    """The first thing that pydantic found wrong, in one line."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if not _UNION_MEMBER.fullmatch(str(part)))
    kind = " ".join([first["type"], *([first["ctx"]["class"]] if first["type"] == "is_instance_of" else ())])
    message = _IN_A_FILE.get(kind, first["msg"].removeprefix("Value error, "))
    value = "" if first["type"] in ("missing", "value_error") else f" (not {first['input']!r})"
    return f"{where}{': ' if where else ''}{message[0].lower()}{message[1:]}{value}"


def _checked(maker: Callable[..., Any], arguments: dict[str, Any], what: str) -> dict[str, Any]:
    """The arguments of a class that is no pydantic model, checked and converted by its annotations."""
    from pydantic import TypeAdapter

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
    return entry_points(group=f"eunoe.{kind.replace(' ', '_')}")


def _of_its_kind(kind: str, name: str, thing: Thing) -> Thing:
    if kind in _BASES:
        base = _load(kind, _BASES[kind])
        if not (isinstance(thing, type) and isinstance(base, type) and issubclass(thing, base)):
            raise InputError(
                f"{kind} {name!r} must be a class that derives from {_BASES[kind].replace(':', '.')}"
            )
    return thing


def _load(kind: str, path: str) -> Thing:
    module_name, _, attribute = path.partition(":")
    if not all(part.isidentifier() for part in (*module_name.split("."), attribute)):
        raise InputError(f"{path!r} names no {kind}; your own is named as package.module:name")
    here = str(Path.cwd())
    if here not in sys.path:
        # A user's own file beside the config is found as it would be by `python -m`.
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name and not f"{module_name}.".startswith(f"{error.name}."):
            raise
        raise InputError(f"no module {module_name!r} to take the {kind} {path!r} from") from None
    thing = getattr(module, attribute, None)
    if not callable(thing):
        raise InputError(f"module {module_name!r} has no class or function called {attribute!r}")
    return thing  # type: ignore[no-any-return]

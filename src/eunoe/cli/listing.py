"""`eunoe list` and `eunoe options`: the components and options of a config."""

import inspect
from typing import Annotated, Any

import typer
from pydantic import BaseModel

from eunoe.config import registry
from eunoe.config.messages import sections_of, type_name
from eunoe.config.registry import KINDS
from eunoe.errors import InputError, nearest

_LISTED = {kind.plural: kind for kind in KINDS.values()}
# Kinds by key and by section of a config.
_BY_NAME = {k.key: k for k in KINDS.values()} | {k.section: k for k in KINDS.values() if k.section}


def list_components(kind: Annotated[str, typer.Argument(help=f"One of {', '.join(_LISTED)}.")]) -> None:
    """List all components of a kind, one line each."""
    from eunoe.cli.tables import show

    if kind not in _LISTED:
        raise InputError(f"unknown kind {kind!r}; {nearest(kind, _LISTED)}")
    key = _LISTED[kind].key
    headings = ["name", "description"]
    rows = [[name, registry.summary(key, name)] for name in registry.names(key)]
    if key == "method":
        headings += ["client state", "up", "down", "client compute", "server"]
        # A method of another package may state no cost.
        rows = [[*row, *(getattr(registry.find(key, row[0]), "cost", None) or [""] * 5)] for row in rows]
    show(headings, rows)


def options(
    name: Annotated[str | None, typer.Argument(help="A section, or kind:name as method:fedprox.")] = None,
) -> None:
    """Show the options of a config file with their defaults, types and descriptions."""
    from eunoe.cli.tables import show
    from eunoe.config.options import Named
    from eunoe.config.schema import Config

    if name is None:
        show(*_fields(Config))
    elif ":" in name:
        _show_component(*name.split(":", 1))
    elif name not in Config.model_fields:
        raise InputError(f"unknown section {name!r}; {nearest(name, Config.model_fields)}")
    else:
        field = Config.model_fields[name]
        sections = sections_of(field.annotation)
        if not sections:
            raise InputError(f"{name} is a single value, not a section: {field.description}")
        show(*_fields(sections[0]))
        if name in _BY_NAME and issubclass(sections[0], Named):
            names = registry.names(_BY_NAME[name].key)
            typer.echo(f"names: {', '.join(names)}; for the options of one: eunoe options {name}:{names[0]}")


def _show_component(kind: str, name: str) -> None:
    """Show the options of a component: its fields, or the arguments of a function or plain class."""
    from eunoe.cli.tables import show

    if kind not in _BY_NAME:
        raise InputError(f"unknown kind {kind!r}; {nearest(kind, _BY_NAME)}")
    component = registry.find(_BY_NAME[kind].key, name)
    if isinstance(component, type) and issubclass(component, BaseModel):
        show(*_fields(component))
        return
    hints = inspect.signature(component, eval_str=True).parameters
    rows = [
        [
            key,
            "required" if p.default is p.empty else _format_default(p.default),
            type_name(hints[key].annotation),
        ]
        for key, p in registry.options(component).items()
        if key not in _BY_NAME[kind].supplied
    ]
    show(["option", "default", "type"], rows)
    typer.echo(inspect.getdoc(component) or "")


def _fields(model: type[BaseModel]) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            key,
            "required" if field.is_required() else _format_default(field.default),
            type_name(field.annotation),
            field.description or "",
        ]
        for key, field in model.model_fields.items()
    ]
    return ["option", "default", "type", "description"], rows


def _format_default(value: Any) -> str:
    """Format a default as in a config file; a section by its name, if it has one."""
    from eunoe.config.settings import inline

    if value is None:
        return "none"
    if isinstance(value, BaseModel):
        return str(getattr(value, "name", "")) or "[section]"
    if isinstance(value, tuple | list) and any(isinstance(item, BaseModel) for item in value):
        return f"[{len(value)} sections]"
    return value if isinstance(value, str) else inline(value)

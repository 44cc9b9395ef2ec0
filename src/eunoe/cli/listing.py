"""`eunoe list` and `eunoe options`: what there is to choose from."""

from enum import StrEnum
from typing import Annotated

import typer


class Kind(StrEnum):
    """What can be listed."""

    methods = "methods"
    losses = "losses"
    steps = "steps"
    models = "models"
    data = "data"
    partitions = "partitions"
    trackers = "trackers"


_KINDS = {
    Kind.methods: "method",
    Kind.losses: "loss",
    Kind.steps: "server optimizer",
    Kind.models: "model",
    Kind.data: "data set",
    Kind.partitions: "partition",
    Kind.trackers: "tracker",
}


def list_things(kind: Annotated[Kind, typer.Argument(help="What to list.")]) -> None:
    """List methods, losses, server optimizers, models, data sets, partitions or trackers, one line each."""
    from eunoe.cli.tables import show
    from eunoe.config import registry

    thing = _KINDS[kind]
    headings, rows = ["name", "what it is"], []
    for name in registry.names(thing):
        row = [name, registry.summary(thing, name)]
        if kind is Kind.methods:
            row += list(getattr(registry.find(thing, name), "cost", ()))
        rows.append(row)
    if kind is Kind.methods:
        headings += ["client state", "up", "down", "client compute", "server"]
        rows = [row + [""] * (len(headings) - len(row)) for row in rows]
    show(headings, rows)


def options(
    name: Annotated[
        str | None, typer.Argument(help="A section, or kind:name such as method:fedprox.")
    ] = None,
) -> None:
    """Show what a config file may say, with a sentence for every field."""
    from typing import get_args

    from pydantic import BaseModel

    from eunoe.cli.tables import show
    from eunoe.config import registry
    from eunoe.config.schema import Config, Named
    from eunoe.errors import InputError, nearest

    model: type[BaseModel] = Config
    kinds = {value.replace(" ", "_"): value for value in registry.kinds()}
    kinds |= {"data": "data set", "track": "tracker"}
    if name is not None and ":" in name:
        kind, _, thing = name.partition(":")
        if kind not in kinds:
            raise InputError(f"there is no kind {kind!r}; {nearest(kind, kinds)}")
        found = registry.find(kinds[kind], thing)
        if not (isinstance(found, type) and issubclass(found, BaseModel)):
            rows = [
                [key, "" if p.default is p.empty else repr(p.default), str(p.annotation)]
                for key, p in registry.options(found).items()
                if key not in ("shape", "classes")
            ]
            show(["option", "default", "type"], rows)
            return
        model = found
    elif name is not None:
        if name not in Config.model_fields:
            raise InputError(f"there is no section {name!r}; {nearest(name, Config.model_fields)}")
        annotation = Config.model_fields[name].annotation
        sections = [
            t for t in (annotation, *get_args(annotation)) if isinstance(t, type) and issubclass(t, BaseModel)
        ]
        if not sections:
            raise InputError(f"{name} is a single value: {Config.model_fields[name].description}")
        model = sections[0]
    rows = [
        [key, "needed" if field.is_required() else _written(field.default), field.description or ""]
        for key, field in model.model_fields.items()
    ]
    note = None
    if name in kinds and issubclass(model, Named):
        there = registry.names(kinds[name])
        note = f"names: {', '.join(there)}; for the options of one: eunoe options {name}:{there[0]}"
    show(["option", "default", "what it means"], rows, note=note)


def _written(value: object) -> str:
    from pydantic import BaseModel

    if isinstance(value, BaseModel):
        name = getattr(value, "name", None)
        return f"{name}" if name else "[section]"
    return "none" if value is None else str(value)

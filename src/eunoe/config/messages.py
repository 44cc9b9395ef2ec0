"""Validation errors and types in the terms of a config file."""

import re
import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from eunoe.config.settings import RENAMED
from eunoe.errors import nearest

# Parts of an error's location that pydantic adds for a field of several types.
_UNION_MEMBER = re.compile(r"int|float|str|bool|(tuple|list|constrained-|function-|literal).*")

# Replacements of pydantic's messages about Python types.
_SECTION, _LIST = "input should be a section of options", "input should be a list"
_IN_A_FILE = {
    "model_type": _SECTION,
    "dict_type": _SECTION,
    "tuple_type": _LIST,
    "list_type": _LIST,
    "sequence_str": _LIST,
    "is_instance_of Sequence": _LIST,
}


def explain(error: ValidationError) -> str:
    """Return the first validation error in one line."""
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if not _UNION_MEMBER.fullmatch(str(part)))
    kind = " ".join([first["type"], *([first["ctx"]["class"]] if first["type"] == "is_instance_of" else ())])
    message = _IN_A_FILE.get(kind, first["msg"].removeprefix("Value error, "))
    value = "" if first["type"] in ("missing", "value_error") else f" (not {first['input']!r})"
    return f"{where}{': ' if where else ''}{message[0].lower()}{message[1:]}{value}"


def explain_in(model: type[BaseModel], error: ValidationError) -> str:
    """Like `explain`, for a config with sections; suggest the nearest key for an unknown one."""
    # A misspelled key often leaves another one missing: report the former.
    unknown = next((item for item in error.errors() if item["type"] == "extra_forbidden"), None)
    if unknown is None:
        return explain(error)
    *parents, key = (str(part) for part in unknown["loc"])
    if (new := RENAMED.get(".".join([*parents, key]))) is not None:
        return f"{'.'.join([*parents, key])!r} is now {'.'.join([*parents, new])!r}"
    section = model
    for parent in parents:
        # A number is an index in a list.
        if parent in section.model_fields:
            section = next(iter(sections_of(section.model_fields[parent].annotation)), section)
    where = f" in [{'.'.join(parents)}]" if parents else ""
    elsewhere = [
        f"{name}.{key}"
        for name, field in model.model_fields.items()
        if any(key in inner.model_fields for inner in sections_of(field.annotation))
    ]
    if elsewhere and not parents:
        return f"there is no {key!r}; did you mean {' or '.join(map(repr, elsewhere))}?"
    return f"there is no {key!r}{where}; {nearest(key, section.model_fields)}"


def sections_of(annotation: Any) -> list[type[BaseModel]]:
    """Return the models that a field's type contains, as in `X | None` and `tuple[X, ...]`."""
    types = (annotation, *get_args(annotation))
    return [kind for kind in types if isinstance(kind, type) and issubclass(kind, BaseModel)]


# Singular and plural.
_WORDS: dict[Any, tuple[str, str]] = {
    bool: ("true or false", "values that are true or false"),
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    str: ("text", "texts"),
    Path: ("a path", "paths"),
}


def type_name(annotation: Any, several: bool = False) -> str:
    """Describe a type, as in "a list of 2 numbers"; None is left out, since a file cannot hold it."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in _WORDS:
        return _WORDS[annotation][several]
    if origin is Annotated:
        return type_name(inner[0], several)
    if origin is Literal:
        return ("each one of " if several else "one of ") + ", ".join(str(choice) for choice in inner)
    if origin in (Union, types.UnionType):
        return " or ".join(dict.fromkeys(type_name(t, several) for t in inner if t is not types.NoneType))
    if origin is tuple and inner[-1] is not Ellipsis:
        return f"{'lists' if several else 'a list'} of {len(inner)} {type_name(inner[0], several=True)}"
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return f"{'lists' if several else 'a list'} of {type_name(inner[0], several=True)}"
    if isinstance(origin or annotation, type) and issubclass(origin or annotation, BaseModel | Mapping):
        return "sections" if several else "a section"
    return "values" if several else "a value"

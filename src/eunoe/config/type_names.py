"""The types of options in the words of a config file: "a number", "one of a, b", "a list of integers"."""

import types
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

# One of them, and several.
_WORDS: dict[Any, tuple[str, str]] = {
    bool: ("true or false", "values that are true or false"),
    int: ("an integer", "integers"),
    float: ("a number", "numbers"),
    str: ("text", "texts"),
    Path: ("a path", "paths"),
}


def type_name(annotation: Any, several: bool = False) -> str:
    """What an option of this type takes; None, which a file cannot hold, is left out."""
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

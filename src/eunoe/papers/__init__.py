"""Every table and figure of the papers as a recipe that runs it, found by name."""

from functools import cache
from importlib import import_module

from eunoe.errors import InputError, nearest
from eunoe.papers.base import Recipe, Run, Scale, Variant

__all__ = ["Recipe", "Run", "Scale", "Variant", "find_recipe", "recipes"]

_FILES = (
    "learning_rates",
    "lenet",
    "methods_with_wsm",
    "heat_maps",
    "curves",
    "ablations",
    "personalization",
    "fedcurv",
    "flashback",
    "flashback_ablations",
    "partitions",
    "central",
)


@cache
def recipes() -> dict[str, Recipe]:
    """All recipes by name."""
    found: dict[str, Recipe] = {}
    for file in _FILES:
        for recipe in import_module(f"eunoe.papers.exhibits.{file}").RECIPES:
            assert recipe.name not in found, f"two recipes are called {recipe.name}"
            found[recipe.name] = recipe
    return found


def find_recipe(name: str) -> Recipe:
    """The recipe of this name."""
    if name not in recipes():
        raise InputError(f"no recipe is called {name!r}; {nearest(name, recipes())}")
    return recipes()[name]

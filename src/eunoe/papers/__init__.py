"""Every table and figure of the papers as a reproducible exhibit, found by name."""

from functools import cache
from importlib import import_module

from eunoe.errors import InputError, nearest
from eunoe.papers.exhibit import Exhibit, PlannedRun, Scale, Variant

__all__ = ["Exhibit", "PlannedRun", "Scale", "Variant", "all_exhibits", "find_exhibit"]

_FILES = (
    "learning_rates",
    "lenet",
    "ahead",
    "lenet_losses",
    "methods_with_wsm",
    "fednova_identity",
    "heat_maps",
    "curves",
    "ablations",
    "personalization",
    "fedcurv",
    "fedcurv_sparse",
    "flashback",
    "flashback_figures",
    "flashback_ablations",
    "t_squared",
    "partitions",
    "norms",
    "central",
    "streams",
)


@cache
def all_exhibits() -> dict[str, Exhibit]:
    """All exhibits by name."""
    found: dict[str, Exhibit] = {}
    for file in _FILES:
        for exhibit in import_module(f"eunoe.papers.exhibits.{file}").EXHIBITS:
            assert exhibit.name not in found, f"two exhibits are called {exhibit.name}"
            found[exhibit.name] = exhibit
    return found


def find_exhibit(name: str) -> Exhibit:
    """The exhibit of this name."""
    if name not in all_exhibits():
        raise InputError(f"no table or figure is called {name!r}; {nearest(name, all_exhibits())}")
    return all_exhibits()[name]

"""Measure and prevent forgetting in federated learning."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from eunoe.config.schema import Config as Config
    from eunoe.data.federation import Federation as Federation
    from eunoe.errors import EunoeError as EunoeError
    from eunoe.errors import InputError as InputError
    from eunoe.losses.base import client_loss as client_loss
    from eunoe.methods.base import Method as Method
    from eunoe.metrics.observer import Forgetting as Forgetting
    from eunoe.search.bench import bench as bench
    from eunoe.search.cure import cure as cure
    from eunoe.server.averaging import ModelAverage as ModelAverage
    from eunoe.simulation.run import Run as Run
    from eunoe.simulation.running import resume as resume
    from eunoe.simulation.running import run as run
    from eunoe.views import compare as compare
    from eunoe.views import diagnose as diagnose
    from eunoe.views import figures as figures
    from eunoe.views import write_report as write_report

__version__ = "0.2.0"

# The public names and where they live; imported when first used, so that the command starts fast.
_PUBLIC = {
    "Config": "eunoe.config.schema",
    "EunoeError": "eunoe.errors",
    "Federation": "eunoe.data.federation",
    "Forgetting": "eunoe.metrics.observer",
    "InputError": "eunoe.errors",
    "Method": "eunoe.methods.base",
    "ModelAverage": "eunoe.server.averaging",
    "Run": "eunoe.simulation.run",
    "bench": "eunoe.search.bench",
    "client_loss": "eunoe.losses.base",
    "compare": "eunoe.views",
    "cure": "eunoe.search.cure",
    "diagnose": "eunoe.views",
    "figures": "eunoe.views",
    "resume": "eunoe.simulation.running",
    "run": "eunoe.simulation.running",
    "write_report": "eunoe.views",
}

# Packages with public names of their own, which `import eunoe` alone gives too.
_PACKAGES = {"data", "engines", "flower", "losses", "methods", "metrics", "server", "testing"}

__all__ = [*_PUBLIC, "__version__"]


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    if name in _PACKAGES:
        return import_module(f"eunoe.{name}")
    raise AttributeError(f"module 'eunoe' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)

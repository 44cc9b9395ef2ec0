"""What is required of every method, with cross-entropy and with the re-weighted softmax."""

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from eunoe.config import registry
from eunoe.testing import CheckedMethod

METHODS = registry.names("method")
# What the default of an option would make long.
SMALL: dict[str, dict[str, Any]] = {
    "feddf": {"steps": 20, "every": 10},
    "fedreg": {"ascent_steps": 3, "ps_eta": 0.4},
}


def trains_clients(method: str) -> bool:
    return getattr(registry.find("method", method), "trains_clients", True)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, str], CheckedMethod]:
    """Methods whose undisturbed runs are made once for all checks."""

    @cache
    def made(method: str, loss: str) -> CheckedMethod:
        section = {"name": method, **SMALL.get(method, {})}
        return CheckedMethod(section, tmp_path_factory.mktemp(method), loss)

    return made


def cases() -> list[Any]:
    """All checks that apply to a method, by name."""
    return [
        pytest.param(method, check.__name__, id=f"{method}-{check.__name__}")
        for method in METHODS
        for check in CheckedMethod(method, Path()).checks()
    ]


@pytest.mark.parametrize("loss", ["ce", "wsm"])
@pytest.mark.parametrize(("method", "check"), cases())
def test_method(method: str, check: str, loss: str, checked: Callable[[str, str], CheckedMethod]) -> None:
    getattr(checked(method, loss), check)()

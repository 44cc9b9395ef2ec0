"""Exceptions of the package, and helpers for their messages."""

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from eunoe.text import one_line

# The state of a run that ended.
Outcome = Literal["finished", "interrupted", "diverged", "failed"]


class EunoeError(Exception):
    """Base of all errors; the message is one line without control characters."""

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class InputError(EunoeError):
    """Invalid input; the message states the problem and what to do."""


class Damaged(InputError):
    """A file that is corrupt or was changed after it was written."""


class NotVectorizable(EunoeError):
    """A computation that `torch.func.vmap` does not support; clients are trained one by one instead."""


class ClientError(EunoeError):
    """An exception of a worker that cannot be pickled; the message is its traceback."""

    def __init__(self, message: str = "") -> None:
        Exception.__init__(self, message)


class RunFailed(EunoeError):
    """A run that cannot continue; its last valid checkpoint is kept."""


class Diverged(RunFailed):
    """A run whose model is not finite."""


def outcome_of(kind: type[BaseException] | None) -> Outcome:
    """Return the outcome of a run that ended with an exception of this type, or without one."""
    if kind is None:
        return "finished"
    if issubclass(kind, KeyboardInterrupt):
        return "interrupted"
    return "diverged" if issubclass(kind, Diverged) else "failed"


def first_line(error: BaseException) -> str:
    """Return the first line of an exception's message, or its type if the message is empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def install_command(extra: str) -> str:
    """Return the command that installs an extra: from the clone that is in use, or else by name."""
    clone = Path(__file__).resolve().parents[2]
    return f"pip install '{clone if (clone / 'pyproject.toml').exists() else 'eunoe'}[{extra}]'"


def join_names(names: Iterable[str], most: int = 5) -> str:
    """Join names in one line; of many, only the first few."""
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: the closest known one, or all of them."""
    known = sorted(known)
    if close := difflib.get_close_matches(name, known, 1, 0.6):
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(known)}" if known else "there are none"

"""Errors that the user can fix."""

import difflib
from collections.abc import Iterable
from typing import Literal

from eunoe.text import one_line

# How a run ended.
Outcome = Literal["finished", "interrupted", "diverged", "failed"]


class EunoeError(Exception):
    """Base of Eunoe's errors, each explained in one line without control characters."""

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class InputError(EunoeError):
    """Invalid user input; the message says what is wrong and what would be right."""


class Damaged(InputError):
    """A file that is not what was written, or not what it should be."""


class NotVectorizable(EunoeError):
    """What `torch.func.vmap` cannot compute, or not correctly; clients train one after the other instead."""


class ClientError(EunoeError):
    """An exception that cannot be pickled out of its worker; the message is its traceback."""

    def __init__(self, message: str = "") -> None:
        Exception.__init__(self, message)


class RunFailed(EunoeError):
    """A run that cannot continue; its last good checkpoint is kept."""


class Diverged(RunFailed):
    """A run whose model is no longer finite."""


def outcome_of(kind: type[BaseException] | None) -> Outcome:
    """The outcome of a run that ended with an exception of this type, or without one."""
    if kind is None:
        return "finished"
    if issubclass(kind, KeyboardInterrupt):
        return "interrupted"
    return "diverged" if issubclass(kind, Diverged) else "failed"


def first_line(error: BaseException) -> str:
    """The first line of an exception's message, or its type if the message is empty."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def listed(names: Iterable[str], most: int = 5) -> str:
    """Names in one line, the first few of many."""
    names = list(names)
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the nearest known one, or all of them."""
    known = sorted(known)
    if close := difflib.get_close_matches(name, known, 1, 0.6):
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(known)}" if known else "there are none"

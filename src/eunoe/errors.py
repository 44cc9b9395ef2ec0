"""What can go wrong in a way that the user can fix."""

import difflib
from collections.abc import Iterable
from typing import Literal

# How a run ended.
Outcome = Literal["finished", "interrupted", "diverged", "failed"]


class EunoeError(Exception):
    """Something that Eunoe noticed and can explain in one line."""


class InputError(EunoeError):
    """What the user gave cannot be used; the message says what is wrong and what would be right."""


class ClientError(EunoeError):
    """An exception that cannot leave the worker it was raised in; the message is its trace."""


class RunFailed(EunoeError):
    """A run that cannot go on; its last good checkpoint is kept."""


class Diverged(RunFailed):
    """A run whose model is no longer made of finite numbers."""


def outcome_of(kind: type[BaseException] | None) -> Outcome:
    """How a run ended that was left by an exception of this kind, or by none."""
    if kind is None:
        return "finished"
    if issubclass(kind, KeyboardInterrupt):
        return "interrupted"
    return "diverged" if issubclass(kind, Diverged) else "failed"


def first_line(error: BaseException) -> str:
    """What an exception says first, or what it is called if it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def nearest(name: str, known: Iterable[str]) -> str:
    """A hint at what an unknown name may have meant: the nearest known one, or all of them."""
    known = sorted(known)
    if close := difflib.get_close_matches(name, known, 1, 0.6):
        return f"did you mean {close[0]!r}?"
    return f"there are {', '.join(known)}" if known else "there are none"

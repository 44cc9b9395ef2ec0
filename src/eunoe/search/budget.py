"""A budget of wall-clock time: how it is written, and how much of it is left."""

import re
import time

from eunoe.errors import InputError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class TimeUp(KeyboardInterrupt):
    """The budget is used up: runs end as by Ctrl-C, and can go on."""


class Clock:
    """Seconds of a budget (none: without end), those of earlier sessions included."""

    def __init__(self, budget: float | None, spent: float = 0.0) -> None:
        self.budget, self._before, self._began = budget, spent, time.monotonic()

    @property
    def spent(self) -> float:
        return self._before + time.monotonic() - self._began

    @property
    def over(self) -> bool:
        return self.budget is not None and self.spent >= self.budget


def read_budget(text: str | float) -> float:
    """Seconds, from a number of them or from text such as 90s, 15m or 2h."""
    if not isinstance(text, str):
        seconds = float(text)
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh])\s*", text)
        if not match:
            raise InputError(f"budget {text!r} is no time: write it as 90s, 15m or 2h")
        seconds = float(match[1]) * _UNITS[match[2]]
    if not 0 < seconds < float("inf"):
        raise InputError(f"budget {text!r} must be above 0: write it as 90s, 15m or 2h")
    return seconds


def written(seconds: float) -> str:
    """A time that is at least so long, as a budget is written."""
    whole = int(-(-seconds // 1))
    return f"{whole}s" if whole < 120 else f"{-(-whole // 60)}m"

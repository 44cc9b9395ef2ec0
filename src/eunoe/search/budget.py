"""A budget of wall-clock time: parsing, formatting, and the time left."""

import re
import time

from eunoe.errors import InputError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class TimeUp(KeyboardInterrupt):
    """The budget is used up: runs end as on Ctrl-C and can be resumed."""


class Clock:
    """A budget in seconds (None: unlimited), and the seconds spent, including earlier sessions."""

    def __init__(self, budget: float | None, spent: float = 0.0) -> None:
        self.budget, self._before, self._began = budget, spent, time.monotonic()

    @property
    def spent(self) -> float:
        return self._before + time.monotonic() - self._began

    @property
    def over(self) -> bool:
        return self.budget is not None and self.spent >= self.budget


def parse_budget(text: str | float) -> float:
    """Return seconds from a number of seconds or from text such as 90s, 15m or 2h."""
    if not isinstance(text, str):
        seconds = float(text)
    else:
        match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([smh])\s*", text)
        if not match:
            raise InputError(f"invalid budget {text!r}: write it as 90s, 15m or 2h")
        seconds = float(match[1]) * _UNITS[match[2]]
    if not 0 < seconds < float("inf"):
        raise InputError(f"the budget must be positive and finite, not {text!r}")
    return seconds


def format_budget(seconds: float) -> str:
    """Format seconds as a budget, rounded up."""
    whole = int(-(-seconds // 1))
    return f"{whole}s" if whole < 120 else f"{-(-whole // 60)}m"

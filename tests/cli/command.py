"""The eunoe command inside this process, since a process of its own takes seconds to start."""

import contextlib
import io
import sys
from dataclasses import dataclass
from unittest import mock

from eunoe.cli.app import main


@dataclass(frozen=True)
class Outcome:
    """How a command ended and what it wrote."""

    code: int
    out: str
    error: str


def eunoe(*arguments: object) -> Outcome:
    """What the command does with these arguments, in the current folder."""
    out, error, code = io.StringIO(), io.StringIO(), 0
    with (
        mock.patch.object(sys, "argv", ["eunoe", *(str(argument) for argument in arguments)]),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(error),
    ):
        try:
            main()
        except SystemExit as end:
            code = end.code if isinstance(end.code, int) else 1 if end.code else 0
    return Outcome(code, out.getvalue(), error.getvalue())

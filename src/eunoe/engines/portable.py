"""Exceptions that go from a worker to the user."""

import pickle
import traceback
from types import ModuleType

from eunoe.errors import ClientError


def portable(error: Exception, pickling: ModuleType = pickle) -> Exception:
    """The exception with where it came from, in a form that can be sent."""
    trace = "".join(traceback.format_exception(error))
    error.add_note(trace)
    try:
        pickle.loads(pickling.dumps(error))
        return error
    except Exception:
        return ClientError(trace)

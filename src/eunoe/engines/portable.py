"""Exceptions sent from a worker to the main process."""

import pickle
import traceback
from types import ModuleType

from eunoe.errors import ClientError


def portable(error: Exception, pickling: ModuleType = pickle) -> Exception:
    """The exception with its traceback as a note, in a form that can be pickled."""
    trace = "".join(traceback.format_exception(error))
    error.add_note(trace)
    try:
        pickle.loads(pickling.dumps(error))
        return error
    except Exception:  # A user's exception may fail to pickle in any way.
        return ClientError(trace)

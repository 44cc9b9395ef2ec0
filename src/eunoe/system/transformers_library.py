"""The transformers library as an optional dependency: where its models are, and without its remarks."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eunoe.errors import InputError


def place_of(name: str) -> str:
    """A folder if there is one of this name, else the name itself, which is then one of the hub."""
    folder = Path(name).expanduser()
    return str(folder) if folder.is_dir() else name


@contextmanager
def quiet(what: str) -> Iterator[None]:
    """Without progress bars and remarks on new layers; an InputError if the library is not installed."""
    try:
        import peft  # noqa: F401
        from transformers.utils import logging as theirs
    except ImportError:
        raise InputError(f"{what} needs transformers and peft: pip install 'eunoe[hf]'") from None
    level, bars = theirs.get_verbosity(), theirs.is_progress_bar_enabled()
    theirs.set_verbosity_error()
    theirs.disable_progress_bar()
    hub = logging.getLogger("huggingface_hub")
    before = hub.level
    hub.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        hub.setLevel(before)
        theirs.set_verbosity(level)
        if bars:
            theirs.enable_progress_bar()

"""The transformers library as an optional dependency."""

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from eunoe.errors import InputError, install_command


def locate_model(name: str) -> str:
    """Return the folder of this name if it exists, else the name, which is then one on the hub."""
    folder = Path(name).expanduser()
    return str(folder) if folder.is_dir() else name


@contextmanager
def quiet(what: str) -> Iterator[None]:
    """Silence progress bars and warnings about new layers; raise InputError if not installed."""
    try:
        import peft  # noqa: F401
        from transformers.utils import logging as transformers_logging
    except ImportError:
        raise InputError(f"{what} needs transformers and peft: run {install_command('hf')}") from None
    level, bars = transformers_logging.get_verbosity(), transformers_logging.is_progress_bar_enabled()
    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
    hub = logging.getLogger("huggingface_hub")
    before = hub.level
    hub.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        hub.setLevel(before)
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()

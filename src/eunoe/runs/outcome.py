"""How a run ended: finished, or diverged."""

import logging
from pathlib import Path

from eunoe.errors import Outcome
from eunoe.records.divergence import divergence
from eunoe.records.divergence import warning as never_rose
from eunoe.records.reader import read_run

logger = logging.getLogger(__name__)


def judge(folder: Path, reason: str) -> tuple[Outcome, str]:
    """How a run ended whose last round is done: finished, or diverged if its model is worth nothing."""
    records = read_run(folder, begun=False)
    if why := divergence(records):
        logger.warning("the run diverged: %s; a smaller training.lr may help", why)
        return "diverged", f"{reason}, but {why}"
    if why := never_rose(records):
        logger.warning("%s", why)
    return "finished", reason

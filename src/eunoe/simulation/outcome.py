"""How a run ended: finished, or diverged."""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from eunoe.analysis.divergence import divergence, find_outlier, never_learned_warning
from eunoe.errors import Outcome
from eunoe.store.reader import read_run

logger = logging.getLogger(__name__)


def explained(why: str, records: Iterable[Mapping[str, Any]], go_back: str) -> str:
    """Why a run has diverged, whose change stands out, and how to go back."""
    back = go_back and f"to go back to the last good checkpoint: {go_back}"
    return "; ".join(filter(None, (why, find_outlier(records), back)))


def judge(folder: Path, reason: str, go_back: str = "") -> tuple[Outcome, str]:
    """How a run ended whose last round is done: finished, or diverged if its model is worth nothing."""
    records = read_run(folder, begun=False)
    if why := divergence(records):
        why = explained(why, records.metrics, go_back)
        logger.warning("the run diverged: %s; a smaller training.lr may help", why)
        return "diverged", f"{reason}, but {why}"
    if why := never_learned_warning(records):
        logger.warning("%s", why)
    return "finished", reason

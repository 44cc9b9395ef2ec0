"""The words of a task in texts that are written for classes and their accuracy.

Figures are the same for every task: what is forgotten is of a class, of a label or of a client, and it is its
accuracy, its balanced accuracy or the variance that is explained.
"""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from eunoe.core.tasks import MultiLabel, Regression, Task
from eunoe.report.theme import Figure

_LABELS = {"classes": "labels", "class": "label", "accuracy": "balanced accuracy"}
_BY_CLIENT = {**_LABELS, "accuracy": "share of right labels"}
_NUMBERS = {"classes": "clients", "class": "client", "accuracy": "explained variance"}


def reworded(figure: Figure, task: type[Task], by_client: bool) -> Figure:
    """A figure in the words of a task; `by_client` says that its accuracies are those of clients."""
    words = {MultiLabel: _BY_CLIENT if by_client else _LABELS, Regression: _NUMBERS}.get(task)
    if words is None:
        return figure
    spec = _in_spec(figure.chart.to_dict(validate=False), words)
    chart = type(figure.chart).from_dict(spec, validate=False)
    return replace(
        figure,
        title=in_words(figure.title, words),
        caption=in_words(figure.caption, words),
        section=in_words(figure.section, words),
        chart=chart,
    )


def in_words(text: str, words: Mapping[str, str]) -> str:
    """A text with the words of a task, a first letter as it was."""

    def other(found: re.Match[str]) -> str:
        word = words[found[0].lower()]
        return word[0].upper() + word[1:] if found[0][0].isupper() else word

    return re.sub(rf"(?i)\b({'|'.join(words)})\b", other, text)


def _in_spec(part: Any, words: Mapping[str, str]) -> Any:
    """A specification with its titles and descriptions reworded; a field without a title gets one."""
    if isinstance(part, list):
        return [_in_spec(inner, words) for inner in part]
    if not isinstance(part, dict):
        return part
    named = {"title": part["field"]} if part.get("field") in words and "title" not in part else {}
    return {
        key: in_words(value, words)
        if key in ("title", "description") and isinstance(value, str)
        else _in_spec(value, words)
        for key, value in (part | named).items()
    }

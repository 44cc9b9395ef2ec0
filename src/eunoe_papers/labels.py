"""Labels of arms and of what is measured on them: named parts, in order."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Part = str | int | float


@dataclass(frozen=True)
class Label:
    """What sets an arm apart: the data set, a setting, the method; of a table's cell also the measure."""

    parts: tuple[tuple[str, Part], ...]

    def __str__(self) -> str:
        """Format the parts: text as it is, a number with the name of its option."""
        return " ".join(v if isinstance(v, str) else f"{name}={v}" for name, v in self.parts)

    def get(self, name: str) -> Part:
        """Return a part; empty if there is none of this name."""
        return dict(self.parts).get(name, "")

    def matches(self, parts: Mapping[str, Any]) -> bool:
        """Return whether each part has the given value, or one of a list of values."""
        return all(self.get(name) in (v if isinstance(v, list) else [v]) for name, v in parts.items())

    def replace(self, **parts: Part) -> "Label":
        """Return the label with other parts; an empty one is left out, a new one comes last."""
        return label(**{**dict(self.parts), **parts})


def label(**parts: Part) -> Label:
    """Return a label with these parts, without those that are empty."""
    return Label(tuple((name, value) for name, value in parts.items() if value != ""))

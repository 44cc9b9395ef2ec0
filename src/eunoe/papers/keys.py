"""Keys of an exhibit's runs: named parts, from which labels are formatted."""

from dataclasses import dataclass
from typing import Self

Part = str | int | float


@dataclass(frozen=True)
class Key:
    """What varies, in the order of the label: the data set, a setting, the method, and what is measured."""

    parts: tuple[tuple[str, Part], ...]

    @property
    def label(self) -> str:
        """The parts as text: a name as it is, a number with the name of its option."""
        return " ".join(v if isinstance(v, str) else f"{name}={v}" for name, v in self.parts)

    def get(self, name: str) -> Part:
        """A part; empty if there is none of this name."""
        return dict(self.parts).get(name, "")

    def has(self, **parts: Part) -> bool:
        """Whether all of these parts have these values."""
        return all(self.get(name) == value for name, value in parts.items())

    def but(self, **parts: Part) -> Self:
        """This key with other parts; one that becomes empty is left out, a new one comes last."""
        return type(self)(_present({**dict(self.parts), **parts}))


def key(**parts: Part) -> Key:
    """A key of these parts, without those that are empty."""
    return Key(_present(parts))


def _present(parts: dict[str, Part]) -> tuple[tuple[str, Part], ...]:
    return tuple((name, value) for name, value in parts.items() if value != "")

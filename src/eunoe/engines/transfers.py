"""What an engine copies to its workers and devices and back: how often, and how many bytes."""

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Transfers:
    """Copies and their bytes, by what was copied."""

    copies: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)

    def count(self, what: str, size: int) -> None:
        """Count a copy."""
        self.copies[what] += 1
        self.bytes[what] += size

    def add(self, other: "Transfers") -> None:
        """Count what somebody else has counted."""
        self.copies += other.copies
        self.bytes += other.bytes

    def taken(self) -> "Transfers":
        """What was counted since this was last asked for."""
        found = Transfers(self.copies, self.bytes)
        self.copies, self.bytes = Counter(), Counter()
        return found

    def record(self) -> dict[str, dict[str, int]]:
        """Copies and bytes by what was copied, in alphabetical order."""
        return {
            what: {"copies": self.copies[what], "bytes": self.bytes[what]} for what in sorted(self.copies)
        }

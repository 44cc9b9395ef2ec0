"""Words or characters as numbers, by what the training part holds; the specification is plain JSON."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Unit = Literal["words", "characters"]
PADDING, UNKNOWN, FIRST = 0, 1, 2
# Runs of letters, digits and apostrophes, in lower case.
_WORD = r"[\w']+"


@dataclass(frozen=True)
class Vocabulary:
    """Turns text into `length` numbers: 0 pads, 1 is a token that the training part does not have.

    Of words the first `length` count and padding follows them; of characters the last ones, which padding
    precedes, so that the newest is always in the last place.
    """

    unit: Unit
    length: int
    tokens: tuple[str, ...]

    @classmethod
    def fit(cls, texts: Iterable[str], unit: Unit, length: int, most: int) -> "Vocabulary":
        """The most frequent tokens of the training part, at most so many."""
        counts = Counter(token for text in texts for token in split(text, unit))
        ordered = sorted(counts, key=lambda token: (-counts[token], token))
        return cls(unit, length, tuple(ordered[:most]))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> "Vocabulary":
        """The vocabulary that `to_dict` wrote, as in the JSON file beside an exported model."""
        return cls(values["unit"], values["length"], tuple(values["tokens"]))

    def to_dict(self) -> dict[str, Any]:
        """All that it takes to encode other texts, in what JSON can say."""
        pattern = {"lowercase": True, "pattern": _WORD} if self.unit == "words" else {}
        ids = {"ids": len(self), "padding": PADDING, "unknown": UNKNOWN, "first": FIRST}
        return {
            "kind": "text",
            "unit": self.unit,
            "length": self.length,
            **pattern,
            **ids,
            "tokens": self.tokens,
        }

    def __len__(self) -> int:
        """How many numbers there are, with padding and unknown."""
        return len(self.tokens) + FIRST

    def encode(self, texts: Sequence[str]) -> NDArray[np.int16 | np.int32]:
        """Numbers [n, length], in as few bytes as will do."""
        numbers = {token: number for number, token in enumerate(self.tokens, start=FIRST)}
        rows = np.full((len(texts), self.length), PADDING, np.int16 if len(self) < 2**15 else np.int32)
        for row, text in zip(rows, texts, strict=True):
            found = [numbers.get(token, UNKNOWN) for token in split(text, self.unit)]
            if self.unit == "words":
                row[: len(found)] = found[: self.length]
            elif found:
                row[-len(found) :] = found[-self.length :]
        return rows


def split(text: str, unit: Unit) -> Sequence[str]:
    """The words of a text, in lower case, or its characters."""
    return re.findall(_WORD, text.lower()) if unit == "words" else text

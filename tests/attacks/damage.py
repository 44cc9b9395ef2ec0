"""Ways to damage a file."""

from collections.abc import Callable

import numpy as np

Damage = Callable[[bytes, np.random.Generator], bytes]


def bit(content: bytes, rng: np.random.Generator) -> bytes:
    """One flipped bit."""
    at = int(rng.integers(len(content)))
    return content[:at] + bytes([content[at] ^ (1 << int(rng.integers(8)))]) + content[at + 1 :]


def byte(content: bytes, rng: np.random.Generator) -> bytes:
    """One byte with another value."""
    at = int(rng.integers(len(content)))
    return content[:at] + bytes([int(rng.integers(256))]) + content[at + 1 :]


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    """The end is missing."""
    return content[: int(rng.integers(len(content)))]


def emptied(content: bytes, rng: np.random.Generator) -> bytes:
    """Nothing is left."""
    return b""


def zeroed(content: bytes, rng: np.random.Generator) -> bytes:
    """A block of zeros, as a disk leaves it."""
    at, size = int(rng.integers(len(content))), int(rng.integers(1, 4096))
    return content[:at] + bytes(len(content[at : at + size])) + content[at + size :]


def hole(content: bytes, rng: np.random.Generator) -> bytes:
    """A part in the middle is missing."""
    at, size = int(rng.integers(len(content))), int(rng.integers(1, 512))
    return content[:at] + content[at + size :]


def longer(content: bytes, rng: np.random.Generator) -> bytes:
    """Something follows."""
    return content + rng.bytes(int(rng.integers(1, 200)))


def noise(content: bytes, rng: np.random.Generator) -> bytes:
    """Anything else of the same length."""
    return rng.bytes(len(content))


def line_missing(content: bytes, rng: np.random.Generator) -> bytes:
    """One line less."""
    lines = content.splitlines(keepends=True)
    del lines[int(rng.integers(len(lines)))]
    return b"".join(lines)


def line_doubled(content: bytes, rng: np.random.Generator) -> bytes:
    """One line twice."""
    lines = content.splitlines(keepends=True)
    at = int(rng.integers(len(lines)))
    return b"".join([*lines[: at + 1], *lines[at:]])


def digit(content: bytes, rng: np.random.Generator) -> bytes:
    """One digit is another: still a number."""
    places = [at for at, value in enumerate(content) if 48 <= value < 58]
    if not places:
        return byte(content, rng)
    at = places[int(rng.integers(len(places)))]
    return content[:at] + bytes([48 + (content[at] - 48 + 1 + int(rng.integers(9))) % 10]) + content[at + 1 :]


def odd_text(content: bytes, rng: np.random.Generator) -> bytes:
    """Something where a value or a key was, such as escape codes, a lone surrogate or a deep list."""
    odd = (b'"\\u001b[31m"', b'"\\ud800"', b"[" * 2000, b"null", b"{}", b"-1", b"1e999", b"[[1],[]]", b'"x"')
    places = [at for at, value in enumerate(content) if value in b",:[= "]
    at = places[int(rng.integers(len(places)))] if places else 0
    end = content.find(b",", at + 1)
    return content[: at + 1] + odd[int(rng.integers(len(odd)))] + (content[end:] if end > 0 else b"")


BINARY: tuple[Damage, ...] = (bit, byte, cut, emptied, zeroed, hole, longer, noise)
TEXT: tuple[Damage, ...] = (*BINARY, line_missing, line_doubled, digit, odd_text)

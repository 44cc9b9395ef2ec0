"""Sanitize untrusted text for terminals, pages and figures; read data files and templates."""

import re
import tomllib
import unicodedata
from collections.abc import Mapping
from importlib.resources import files
from typing import Any

# Characters of the longest message; a longer one, as with a name of a megabyte, loses its middle.
_LONGEST = 2000
# Characters that change the direction of the surrounding text.
_DIRECTIONAL = {chr(code) for code in (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def unprintable(text: str) -> str:
    """Return the first unsafe character of a text; empty if there is none."""
    if text.isprintable():
        return ""
    return next((letter for letter in text if _unsafe(letter)), "")


def printable(text: str) -> str:
    """Escape unsafe characters, including line breaks."""
    if text.isprintable():
        return text
    return "".join(ascii(letter)[1:-1] if _unsafe(letter) else letter for letter in text)


def one_line(text: str) -> str:
    """Join the lines of a text, escape unsafe characters and shorten it."""
    line = printable(" ".join(filter(None, (line.strip() for line in text.splitlines()))))
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST // 2]} ... {line[-_LONGEST // 2 :]}"


def read_data(package: str, path: str) -> dict[str, Any]:
    """Return the values of a TOML file of a package."""
    return tomllib.loads(files(package).joinpath(path).read_text("utf-8"))


def fill_template(package: str, path: str, values: Mapping[str, object]) -> str:
    """Return a template file of a package with each `@key@` replaced by its value."""
    text = files(package).joinpath(path).read_text("utf-8")
    return re.sub(r"@(\w+)@", lambda match: str(values[match[1]]), text)


def _unsafe(letter: str) -> bool:
    # Control characters, lone surrogates, and separators of lines and paragraphs.
    return letter in _DIRECTIONAL or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")

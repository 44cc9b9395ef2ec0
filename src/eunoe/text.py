"""Text that others wrote, made safe for terminals, pages and figures."""

import unicodedata

# Besides control characters and lone surrogates: what turns the direction of the text around it.
_TURNING = {chr(code) for code in (0x200E, 0x200F, *range(0x202A, 0x202F), *range(0x2066, 0x206A))}


def unprintable(text: str) -> str:
    """The first character of a text that no terminal or page should get; empty if there is none."""
    if text.isprintable():
        return ""
    return next((letter for letter in text if _unsafe(letter)), "")


def printable(text: str) -> str:
    """A text with such characters written as escapes, line breaks too."""
    if text.isprintable():
        return text
    return "".join(ascii(letter)[1:-1] if _unsafe(letter) else letter for letter in text)


def one_line(text: str) -> str:
    """A text in one line, with such characters written as escapes."""
    return printable(" ".join(filter(None, (line.strip() for line in text.splitlines()))))


def _unsafe(letter: str) -> bool:
    # Control characters, lone surrogates, and separators of lines and paragraphs.
    return letter in _TURNING or unicodedata.category(letter) in ("Cc", "Cs", "Zl", "Zp")

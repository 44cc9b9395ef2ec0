"""Others' text never reaches a terminal or a page as it is."""

import pytest

from eunoe.errors import ClientError, InputError
from eunoe.text import one_line, printable, unprintable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Größe 猫", "Größe 猫"),
        ("a\x1b[31mb", r"a\x1b[31mb"),
        ("a\ud800b", r"a\ud800b"),
        ("a\u202eb", r"a\u202eb"),
        ("a\u2028b\x85c", r"a\u2028b\x85c"),
        ("a\nb", r"a\nb"),
    ],
)
def test_what_no_terminal_should_get_is_written_as_an_escape(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert bool(unprintable(text)) == (text != shown)


def test_an_error_is_one_line_whoever_wrote_its_text() -> None:
    assert one_line(" a\n\n  b\x07\n") == "a b\\x07"
    assert str(InputError("torch says:\n  no\x1b[0m")) == r"torch says: no\x1b[0m"
    assert one_line("a" * 34_000) == f"{'a' * 1000} ... {'a' * 1000}"
    assert str(ClientError("Traceback\n  line")) == "Traceback\n  line"

"""The library's log records as lines."""

import logging

from eunoe.system.log_lines import log_lines


def test_warnings_have_a_prefix_and_the_logger_is_restored() -> None:
    library, lines = logging.getLogger("eunoe"), list[str]()
    before = library.level, list(library.handlers)
    with log_lines(lines.append):
        logging.getLogger("eunoe.some.module").warning("%d clients dropped", 2)
        logging.getLogger("eunoe").info("waiting")
        logging.getLogger("eunoe").debug("not shown")
        logging.getLogger("other").error("not the library's")
    logging.getLogger("eunoe").warning("after the block")
    assert lines == ["warning: 2 clients dropped", "waiting"]
    assert (library.level, list(library.handlers)) == before

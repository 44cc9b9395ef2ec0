"""Log records of runs, captured and logged again under a title."""

import logging

import pytest

from eunoe.search.logs import captured, relog, titled

LOGGER = logging.getLogger("eunoe.somewhere")


def test_what_is_taken_reaches_no_other_handler(caplog: pytest.LogCaptureFixture) -> None:
    found: list[str] = []
    with captured(lambda record: found.append(record.getMessage())):
        LOGGER.warning("a %s", "b")
    LOGGER.warning("later")
    assert found == ["a b"]
    assert caplog.messages == ["later"]


def test_a_title_comes_first(caplog: pytest.LogCaptureFixture) -> None:
    with titled("run 1"):
        LOGGER.warning("100%% of %d", 3)
        LOGGER.error("again")
    assert caplog.messages == ["run 1: 100% of 3", "run 1: again"]
    assert [(record.name, record.levelname) for record in caplog.records] == [
        ("eunoe.somewhere", "WARNING"),
        ("eunoe.somewhere", "ERROR"),
    ]


def test_what_was_logged_elsewhere_is_logged_here(caplog: pytest.LogCaptureFixture) -> None:
    relog("run 2", "eunoe.far", logging.WARNING, "50% done")
    assert caplog.record_tuples == [("eunoe.far", logging.WARNING, "run 2: 50% done")]
